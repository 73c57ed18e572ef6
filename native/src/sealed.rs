//! The field part of a sealed circuit: witness, rows and sums of query points for wires of full size.
//!
//! Small wires go through byte tables (tables.rs). A field wire would need 32 tables of 256 points a query, half a
//! mebibyte in G1; instead the queries' points at these wires keep their multiples by powers of two, as the quotient
//! query does (msm.rs), some two kibibytes a wire and query in G1, four in G2.

use ark_ec::short_weierstrass::{Affine, Projective, SWCurveConfig};
use ark_ec::{AdditiveGroup, AffineRepr, CurveGroup};
use ark_ff::{BigInt, PrimeField};
use zeroize::Zeroize;

use crate::circuit::{Circuit, Sealed, COMMITMENT_WIRE};
use crate::curve::{Curve, G1Projective, G2Projective};
use crate::error::{Error, Result};
use crate::kernel::{Element, Kernel, Limbs};
use crate::keys::ProvingKey;
use crate::msm::{FixedMsm, MsmWork};
use crate::witness::Witness;

pub const SALT_BYTES: usize = 31;

type Terms<F> = Vec<(u32, F)>;

/// The sealed circuit's products and rows with their coefficients as field elements.
pub struct FieldProgram<F> {
    products: Vec<[Terms<F>; 2]>,
    commitment: Terms<F>,
    rows: Vec<[Terms<F>; 3]>,
}

impl<F: PrimeField<BigInt = BigInt<4>>> FieldProgram<F> {
    pub fn new(sealed: &Sealed) -> Self {
        // Every product writes one wire behind the salt and reads only wires that products before it wrote.
        let products = sealed.products.iter().map(|p| [p.a.terms(), p.b.terms()]).collect();
        let rows = sealed.constraints.iter().map(|row| [row.a.terms(), row.b.terms(), row.c.terms()]).collect();
        Self { products, commitment: sealed.commitment.terms(), rows }
    }

    /// Completes a witness whose integers are there. Error: `salt-length`.
    pub fn fill(&self, circuit: &Circuit, witness: &mut Witness<F>, salt: &[u8]) -> Result<()> {
        let Some(sealed) = &circuit.sealed else {
            return Err(Error::new("circuit-open", "an open circuit takes no salt"));
        };
        if salt.len() != SALT_BYTES {
            return Err(Error::new("salt-length", format!("a salt of {} bytes, expected {SALT_BYTES}", salt.len())));
        }
        let first = circuit.salt_wire() as usize;
        witness.field[0] = F::from_be_bytes_mod_order(salt);
        for (product, [a, b]) in sealed.products.iter().zip(&self.products) {
            let value = evaluate(a, witness, first) * evaluate(b, witness, first);
            witness.field[product.wire as usize - first] = value;
        }
        witness.commitment = evaluate(&self.commitment, witness, first);
        Ok(())
    }

    /// Writes the rows' a and b values from the first slot on. Error `unsatisfied` names the first row that fails.
    pub fn rows<S: Element<Field = F>>(
        &self,
        circuit: &Circuit,
        witness: &Witness<F>,
        a: &mut [S],
        b: &mut [S],
    ) -> Result<()> {
        let first = circuit.salt_wire() as usize;
        for (i, ((row, a), b)) in self.rows.iter().zip(a).zip(b).enumerate() {
            let [left, right, product] = row.each_ref().map(|side| evaluate(side, witness, first));
            if left * right != product {
                let index = circuit.constraints.len() + i;
                return Err(Error::new("unsatisfied", format!("constraint {index} does not hold for this witness")));
            }
            (*a, *b) = (S::new(left), S::new(right));
        }
        Ok(())
    }
}

/// `first` is the first field wire.
fn evaluate<F: PrimeField>(lc: &Terms<F>, witness: &Witness<F>, first: usize) -> F {
    lc.iter().map(|(wire, c)| witness.element(*wire as usize, first) * c).sum()
}

/// Sums over the wires of full size: the commitment and the field wires.
pub struct FullSizeSums<C: Curve> {
    a: FixedMsm<C>,
    b1: FixedMsm<C>,
    b2: Windows<C::G2>,
    k: FixedMsm<C>,
}

/// What a proof's parts gain by the wires of full size.
pub struct FullSizeParts<C: Curve> {
    pub a: G1Projective<C>,
    pub b1: G1Projective<C>,
    pub b2: G2Projective<C>,
    pub k: G1Projective<C>,
}

fn at_full_wires<T: Copy>(circuit: &Circuit, query: &[T]) -> Vec<T> {
    let mut points = vec![query[COMMITMENT_WIRE as usize]];
    points.extend_from_slice(&query[circuit.salt_wire() as usize..]);
    points
}

impl<C: Curve> FullSizeSums<C> {
    pub fn new(circuit: &Circuit, key: &ProvingKey<C>, kernel: Kernel) -> Result<Self> {
        Ok(Self {
            a: FixedMsm::new(&at_full_wires(circuit, &key.a), kernel)?,
            b1: FixedMsm::new(&at_full_wires(circuit, &key.b1), kernel)?,
            b2: Windows::new(&at_full_wires(circuit, &key.b2)),
            k: FixedMsm::new(&at_full_wires(circuit, &key.k), kernel)?,
        })
    }

    pub fn table_bytes(&self) -> usize {
        self.a.table_bytes() + self.b1.table_bytes() + self.b2.table_bytes() + self.k.table_bytes()
    }

    pub fn run(&self, witness: &Witness<C::Fr>, scalars: &mut Vec<Limbs<4>>, msm: &mut MsmWork<C>) -> FullSizeParts<C> {
        scalars.clear();
        scalars.push(witness.commitment.into_bigint().0);
        scalars.extend(witness.field.iter().map(|value| value.into_bigint().0));
        let parts = FullSizeParts {
            a: self.a.run(scalars, msm),
            b1: self.b1.run(scalars, msm),
            b2: self.b2.run(scalars),
            k: self.k.run(scalars, msm),
        };
        scalars.zeroize();
        parts
    }
}

const DIGITS: usize = 32;
const HALF: i32 = 128;

/// Σ s_i·P_i in a group that the kernels have no batches for: signed base-256 digits, one set of 128 buckets for all
/// digits because every base keeps its multiples by 256^w.
struct Windows<G: SWCurveConfig> {
    /// `table[i·DIGITS + w]` = 256^w·P for the i-th finite base.
    table: Vec<Affine<G>>,
    /// Which bases are finite; most wires occur on one side of the rows only.
    finite: Vec<usize>,
}

impl<G: SWCurveConfig> Windows<G> {
    fn new(bases: &[Affine<G>]) -> Self {
        let finite: Vec<usize> = (0..bases.len()).filter(|i| !bases[*i].is_zero()).collect();
        let mut multiples: Vec<Projective<G>> = Vec::with_capacity(finite.len() * DIGITS);
        for base in &finite {
            let mut point = bases[*base].into_group();
            for _ in 0..DIGITS {
                multiples.push(point);
                (0..8).for_each(|_| {
                    point.double_in_place();
                });
            }
        }
        Self { table: Projective::normalize_batch(&multiples), finite }
    }

    fn table_bytes(&self) -> usize {
        self.table.len() * size_of::<Affine<G>>()
    }

    /// Scalars are below 2^255, so that no digit carries out of the last one.
    fn run(&self, scalars: &[Limbs<4>]) -> Projective<G> {
        let mut buckets = vec![Projective::<G>::ZERO; HALF as usize];
        for (base, points) in self.finite.iter().zip(self.table.chunks_exact(DIGITS)) {
            let bytes = scalars[*base].iter().flat_map(|limb| limb.to_le_bytes());
            let mut carry = 0;
            for (byte, point) in bytes.zip(points) {
                let mut digit = i32::from(byte) + carry;
                carry = i32::from(digit > HALF);
                digit -= carry << 8;
                match digit {
                    0 => {}
                    1.. => buckets[digit as usize - 1] += point,
                    _ => buckets[-digit as usize - 1] -= point,
                }
            }
        }
        let (mut run, mut total) = (Projective::<G>::ZERO, Projective::<G>::ZERO);
        for bucket in buckets.iter().rev() {
            run += bucket;
            total += run;
        }
        total
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ark_ec::PrimeGroup;
    use zeroize::Zeroizing;

    use super::*;
    use crate::curve::{Bls381, Bn254};
    use crate::field::{fr_to_be, pow, random_fr};
    use crate::prover::{Blinding, Prover};
    use crate::setup::setup;
    use crate::verifier::Verifier;

    const CTX: [u8; 31] = [3; 31];

    fn term(out: &mut Vec<u8>, wire: u32, coefficient: i64) {
        out.extend(wire.to_be_bytes());
        out.extend(coefficient.to_be_bytes());
    }

    fn lc(out: &mut Vec<u8>, terms: &[(u32, i64)]) {
        out.extend((terms.len() as u16).to_be_bytes());
        terms.iter().for_each(|(wire, c)| term(out, *wire, *c));
    }

    fn field_lc(out: &mut Vec<u8>, terms: &[(u32, u64)]) {
        out.extend((terms.len() as u16).to_be_bytes());
        for (wire, coefficient) in terms {
            out.extend(wire.to_be_bytes());
            // Coefficients beyond 64 bits: the number twice, 128 bits apart.
            out.extend([0; 8]);
            out.extend(coefficient.to_be_bytes());
            out.extend([0; 8]);
            out.extend(coefficient.to_be_bytes());
        }
    }

    /// y = 2x + 1 for 0 <= x < 16; `products` products of salt and x; the commitment is 7 times the last (and 2^128 as
    /// often). Wires: 1, commitment, y, ctx, x, four bits, salt, products.
    fn circuit(curve: u8, products: u32) -> Vec<u8> {
        let (y, ctx, x, bits, salt) = (2, 3, 4, 5, 9);
        let (mut ops, mut rows, mut field_rows) = (vec![1], Vec::new(), Vec::new());
        lc(&mut ops, &[(x, 1)]);
        ops.push(4);
        ops.extend(u32::to_be_bytes(bits));
        ops.push(3);
        lc(&mut ops, &[(0, 1), (x, 2)]);
        ops.extend(0u32.to_be_bytes());
        for bit in bits..salt {
            [[(bit, 1)].as_slice(), &[(0, 1), (bit, -1)], &[]].iter().for_each(|side| lc(&mut rows, side));
        }
        let tied = [(x, 1), (bits, -1), (bits + 1, -2), (bits + 2, -4), (bits + 3, -8)];
        [tied.as_slice(), &[(0, 1)], &[]].iter().for_each(|side| lc(&mut rows, side));
        [[(0, 1), (y, -1), (x, 2)].as_slice(), &[(0, 1)], &[]].iter().for_each(|side| lc(&mut rows, side));
        [[(ctx, 1)].as_slice(), &[], &[]].iter().for_each(|side| lc(&mut rows, side));
        for i in 0..products {
            let (a, b) = ([(0, 9), (salt + i, 5)], [(x, 3), (salt, 2)]);
            ops.push(4);
            field_lc(&mut ops, &a);
            field_lc(&mut ops, &b);
            ops.extend((salt + 1 + i).to_be_bytes());
            field_lc(&mut field_rows, &a);
            field_lc(&mut field_rows, &b);
            // a·b = wire, with the coefficient 1 written out.
            field_rows.extend(1u16.to_be_bytes());
            field_rows.extend((salt + 1 + i).to_be_bytes());
            field_rows.extend([[0; 31].as_slice(), &[1]].concat());
        }
        ops.push(5);
        field_lc(&mut ops, &[(salt + products, 7)]);
        field_lc(&mut field_rows, &[(salt + products, 7)]);
        field_rows.extend([[0, 1].as_slice(), &[0; 4], &[0; 31], &[1]].concat());
        field_rows.extend([[0, 1].as_slice(), &[0, 0, 0, 1], &[0; 31], &[1]].concat());
        let mut out = b"SITSR1C2".to_vec();
        out.push(curve);
        for number in [1, 1, 4, products + 1, products + 3, 7, products + 1] {
            out.extend(number.to_be_bytes());
        }
        out.extend([ops, rows, field_rows].concat());
        out
    }

    fn salt(seed: u8) -> [u8; SALT_BYTES] {
        std::array::from_fn(|i| seed.wrapping_add(i as u8))
    }

    fn proofs_agree<C: Curve>() {
        for products in [1, 20, 60] {
            let file = circuit(C::ID, products);
            let parsed = Circuit::parse(&file).unwrap();
            assert_eq!(parsed.n_rows(), 8 + products as usize);
            let (pk, vk) = setup::<C>(&parsed).unwrap();
            let (pk, verifier) = (pk.encode(), Verifier::new(&vk).unwrap());
            let mut seen: Option<Vec<u8>> = None;
            for kernel in Kernel::available() {
                let prover = Prover::<C>::with_kernel(&file, &pk, kernel).unwrap();
                let r = Zeroizing::new(pow(C::Fr::from(5u64), 3));
                let blinding = Blinding { s: r.clone(), r };
                // Twice: erasing must leave the buffers fit for the next proof.
                for _ in 0..2 {
                    let found = prover.prove_sealed_blinded(&[11], &salt(1), &CTX, &blinding).unwrap();
                    let proof = found.proof.encode();
                    let signals = [fr_to_be(&found.commitment), fr_to_be(&C::Fr::from(23u64)), ctx_word()];
                    assert_eq!(found.outputs, [23]);
                    assert_eq!(verifier.verify_signals(&signals, &proof), Ok(()));
                    assert_eq!(*seen.get_or_insert(proof.clone()), proof, "{}, {products}", kernel.name());
                }
                let wires = prover.witness_sealed(&[11], &salt(1), &CTX).unwrap();
                assert_eq!(crate::witness::first_unsatisfied(&parsed, &wires), None);
                let other = prover.prove_sealed(&[11], &salt(2), &CTX).unwrap();
                assert_ne!(other.commitment, wires[1]);
            }
        }
    }

    fn ctx_word() -> [u8; 32] {
        let mut word = [0; 32];
        word[1..].copy_from_slice(&CTX);
        word
    }

    #[test]
    fn all_kernels_make_the_same_sealed_proof_on_both_curves() {
        proofs_agree::<Bn254>();
        proofs_agree::<Bls381>();
    }

    #[test]
    fn open_and_sealed_are_not_mixed_up() {
        let file = circuit(1, 2);
        let (pk, _) = setup::<Bn254>(&Circuit::parse(&file).unwrap()).unwrap();
        let prover = Prover::<Bn254>::new(&file, &pk.encode()).unwrap();
        let code = |error: Option<Error>| error.map(|e| e.code);
        assert_eq!(code(prover.prove(&[1], &CTX).err()), Some("circuit-sealed"));
        assert_eq!(code(prover.witness(&[1], &CTX).err()), Some("circuit-sealed"));
        for length in [0, 30, 32] {
            assert_eq!(code(prover.prove_sealed(&[1], &vec![1; length], &CTX).err()), Some("salt-length"));
        }
        assert_eq!(code(prover.prove_sealed(&[32], &salt(1), &CTX).err()), Some("witness-range"));
        assert_eq!(code(prover.prove_sealed(&[16], &salt(1), &CTX).err()), Some("unsatisfied"));
        assert_eq!(code(prover.prove_sealed(&[1, 2], &salt(1), &CTX).err()), Some("input-count"));
        assert_eq!(code(prover.prove_sealed(&[1], &salt(1), &CTX[1..]).err()), Some("ctx-length"));
    }

    #[test]
    fn nothing_of_the_statement_stays_in_the_witness() {
        let parsed = Circuit::parse(&circuit(1, 2)).unwrap();
        let mut witness = Witness::<ark_bn254::Fr>::new(&parsed);
        witness.fill(&parsed, &[11], C_ONE).unwrap();
        let program = FieldProgram::new(parsed.sealed.as_ref().unwrap());
        program.fill(&parsed, &mut witness, &salt(1)).unwrap();
        let shape = (witness.values.len(), witness.field.len());
        witness.erase();
        assert!(witness.values.iter().all(|v| *v == 0));
        assert!(witness.field.iter().chain([&witness.commitment]).all(|v| *v == ark_bn254::Fr::ZERO));
        assert_eq!((witness.values.len(), witness.field.len()), shape);
    }

    const C_ONE: ark_bn254::Fr = <ark_bn254::Fr as ark_ff::Field>::ONE;

    /// Every cut and every changed byte: a circuit or one typed error.
    #[test]
    fn damaged_files_are_refused_or_are_circuits() {
        let file = circuit(2, 2);
        for end in 0..file.len() {
            let error = Circuit::parse(&file[..end]).unwrap_err();
            assert!(error.code.starts_with("circuit-"), "{error}");
        }
        for at in 0..file.len() {
            for flip in [1, 0x80, 0xff] {
                let mut damaged = file.clone();
                damaged[at] ^= flip;
                if let Err(error) = Circuit::parse(&damaged) {
                    assert!(error.code.starts_with("circuit-"), "{error}");
                }
            }
        }
    }

    fn sums_agree<C: Curve>() {
        let one = C::Fr::from(1u64);
        let mut scalars: Vec<C::Fr> = vec![C::Fr::ZERO, one, -one, C::Fr::from(128u64), C::Fr::from(129u64)];
        scalars.extend((0..32).map(|w| pow(C::Fr::from(2u64), 8 * w + 7)));
        scalars.extend((0..20).map(|_| random_fr::<C::Fr>().unwrap()));
        let generator = G2Projective::<C>::generator();
        let mut bases: Vec<_> =
            (1..=scalars.len() as u64).map(|i| (generator * C::Fr::from(i * i)).into_affine()).collect();
        bases[3] = Affine::zero();
        let limbs: Vec<Limbs<4>> = scalars.iter().map(|s| s.into_bigint().0).collect();
        let expected: G2Projective<C> = bases.iter().zip(&scalars).map(|(p, s)| *p * *s).sum();
        assert_eq!(Windows::new(&bases).run(&limbs), expected);
    }

    #[test]
    fn windows_equal_the_plain_sum_on_both_curves() {
        sums_agree::<Bn254>();
        sums_agree::<Bls381>();
    }
}
