//! The comparison of kernels can fail: each fault of [`Fault`] is noticed by the check that is there for it.

use std::panic::{catch_unwind, AssertUnwindSafe};

use crate::agreement::{check_proofs, check_quotients};
use crate::curve::{Bls381, Bn254, Curve};
use crate::kernel::faults::{with, Fault};
use crate::kernel::tests::{check_every_case, check_sums};

fn notices(fault: Fault, check: impl FnOnce()) -> bool {
    with(fault, || catch_unwind(AssertUnwindSafe(check)).is_err())
}

fn check_faults<C: Curve>() {
    // A circuit whose domain takes the vector transforms where there are some.
    let proofs = || check_proofs::<C>(&[(2, 63)]);
    assert!(notices(Fault::Lane, proofs), "{}", C::NAME);
    assert!(notices(Fault::Lane, check_every_case::<C>), "{}", C::NAME);
    assert!(notices(Fault::Doubling, check_every_case::<C>), "{}", C::NAME);
    assert!(notices(Fault::Cancelling, check_every_case::<C>), "{}", C::NAME);
    assert!(notices(Fault::InfinityOffByP, check_every_case::<C>), "{}", C::NAME);
    assert!(notices(Fault::LostTerm, || check_sums(&[1, 2, 3], false)), "{}", C::NAME);
    assert!(notices(Fault::LostTerm, || check_sums(&[5; 9], false)), "{}", C::NAME);
    assert!(notices(Fault::Coset, proofs), "{}", C::NAME);
    assert!(notices(Fault::Coset, || check_quotients::<C>(&[64])), "{}", C::NAME);
}

#[test]
fn a_wrong_kernel_is_noticed() {
    check_faults::<Bn254>();
    check_faults::<Bls381>();
}

/// What `notices` says of a kernel that is right.
#[test]
fn a_right_kernel_is_not_accused() {
    assert!(catch_unwind(|| check_proofs::<Bn254>(&[(2, 63)])).is_ok());
    assert!(catch_unwind(|| check_sums(&[5; 9], true)).is_ok());
}
