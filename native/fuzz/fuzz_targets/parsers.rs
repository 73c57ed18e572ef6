//! Circuit, verification key and proof from arbitrary bytes: a value or a typed error, and one encoding per value.
//!
//! To run it, with a nightly toolchain and `cargo install cargo-fuzz`, in native/:
//! `cargo +nightly fuzz run parsers -- -max_len=65536 -max_total_time=600`
//! To check that it compiles, on any toolchain: `cargo check --manifest-path fuzz/Cargo.toml`
#![no_main]

use _native::circuit::Circuit;
use _native::curve::{Bls381, Bn254, Curve};
use _native::keys::VerificationKey;
use _native::verifier::{Proof, Verifier};
use libfuzzer_sys::fuzz_target;

fn on<C: Curve>(data: &[u8]) {
    if let Ok(proof) = Proof::<C>::decode(data) {
        assert_eq!(proof.encode(), data);
    }
    if let Ok(key) = VerificationKey::<C>::decode(data) {
        assert_eq!(key.encode(), data);
        let _ = Verifier::new(&key);
    }
}

fuzz_target!(|data: &[u8]| {
    let _ = Circuit::parse(data);
    on::<Bn254>(data);
    on::<Bls381>(data);
});
