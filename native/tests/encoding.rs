//! Point encodings of both curves: one encoding per point, the published form on BLS12-381, one test per rule.
#![allow(clippy::unwrap_used)]

use _native::curve::{Bls381, Bn254, Curve, G1Affine, G2Affine};
use _native::encoding::{compress, decompress, read_uncompressed, write_uncompressed, PointFault};
use ark_ec::short_weierstrass::{Affine, SWCurveConfig};
use ark_ec::{AffineRepr, CurveGroup};
use ark_ff::{BigInteger, Field, PrimeField};

fn compressed<C: Curve, P: SWCurveConfig>(point: &Affine<P>) -> Vec<u8> {
    let mut out = Vec::new();
    compress::<C, P>(point, &mut out);
    out
}

fn uncompressed<C: Curve, P: SWCurveConfig>(point: &Affine<P>) -> Vec<u8> {
    let mut out = Vec::new();
    write_uncompressed::<C, P>(point, &mut out);
    out
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A point of the curve outside the subgroup, if there is one: the first x whose points are not in it.
fn stray<P: SWCurveConfig>() -> Affine<P> {
    (1u64..)
        .filter_map(|x| Affine::<P>::get_point_from_x_unchecked(P::BaseField::from(x), false))
        .find(|point| !point.is_in_correct_subgroup_assuming_on_curve())
        .unwrap()
}

fn check_round_trips<C: Curve, P: SWCurveConfig>() {
    let generator = Affine::<P>::generator();
    for i in 0..40u64 {
        for point in [generator * P::ScalarField::from(i), generator * -P::ScalarField::from(i * i)] {
            let point = point.into_affine();
            let (short, long) = (compressed::<C, P>(&point), uncompressed::<C, P>(&point));
            assert_eq!(long.len(), 2 * short.len());
            assert_eq!(decompress::<C, P>(&short), Ok(point));
            assert_eq!(read_uncompressed::<C, P>(&long), Ok(point));
        }
    }
}

#[test]
fn points_come_back() {
    check_round_trips::<Bn254, <Bn254 as Curve>::G1>();
    check_round_trips::<Bn254, <Bn254 as Curve>::G2>();
    check_round_trips::<Bls381, <Bls381 as Curve>::G1>();
    check_round_trips::<Bls381, <Bls381 as Curve>::G2>();
}

/// Every value of the flag bits but the point's own, on both forms: another point, or refused.
fn check_flags<C: Curve, P: SWCurveConfig>() {
    let point = (Affine::<P>::generator() * P::ScalarField::from(77u64)).into_affine();
    let (short, long) = (compressed::<C, P>(&point), uncompressed::<C, P>(&point));
    let step = 1 << C::FLAGS.mask.trailing_zeros();
    for flags in (0..=C::FLAGS.mask).step_by(step) {
        let with = |bytes: &[u8]| [&[bytes[0] & !C::FLAGS.mask | flags], &bytes[1..]].concat();
        let found = decompress::<C, P>(&with(&short));
        match found {
            Ok(found) => {
                assert!([C::FLAGS.smaller_y, C::FLAGS.larger_y].contains(&flags));
                assert!(found == point || found == -point);
                assert_eq!(found == point, flags == short[0] & C::FLAGS.mask);
            }
            Err(fault) => assert_eq!(fault, PointFault::Flags),
        }
        let found = read_uncompressed::<C, P>(&with(&long));
        assert_eq!(found, if flags == 0 { Ok(point) } else { Err(PointFault::Flags) });
    }
}

fn check_infinity<C: Curve, P: SWCurveConfig>() {
    let infinity = Affine::<P>::zero();
    let (short, long) = (compressed::<C, P>(&infinity), uncompressed::<C, P>(&infinity));
    assert_eq!(decompress::<C, P>(&short), Ok(infinity));
    assert_eq!(read_uncompressed::<C, P>(&long), Ok(infinity));
    for at in 0..short.len() {
        let mut bytes = short.clone();
        bytes[at] ^= 1;
        assert_eq!(decompress::<C, P>(&bytes), Err(PointFault::Flags), "byte {at}");
    }
    for at in 0..long.len() {
        let mut bytes = long.clone();
        bytes[at] ^= 1;
        assert_eq!(read_uncompressed::<C, P>(&bytes), Err(PointFault::Flags), "byte {at}");
    }
}

/// The field's modulus, and what is above it, is no coordinate.
fn check_canonical<C: Curve, P: SWCurveConfig>() {
    let modulus = C::Fq::MODULUS.to_bytes_be();
    let modulus = &modulus[modulus.len() - C::FQ_BYTES..];
    let point = Affine::<P>::generator();
    let (short, long) = (compressed::<C, P>(&point), uncompressed::<C, P>(&point));
    for part in 0..short.len() / C::FQ_BYTES {
        let mut bytes = short.clone();
        bytes[part * C::FQ_BYTES..][..C::FQ_BYTES].copy_from_slice(modulus);
        bytes[0] |= short[0] & C::FLAGS.mask;
        assert_eq!(decompress::<C, P>(&bytes), Err(PointFault::NotCanonical), "part {part}");
    }
    for part in 0..long.len() / C::FQ_BYTES {
        let mut bytes = long.clone();
        bytes[part * C::FQ_BYTES..][..C::FQ_BYTES].copy_from_slice(modulus);
        assert_eq!(read_uncompressed::<C, P>(&bytes), Err(PointFault::NotCanonical), "part {part}");
    }
}

fn check_off_curve<C: Curve, P: SWCurveConfig>() {
    let mut long = uncompressed::<C, P>(&Affine::<P>::generator());
    let last = long.len() - 1;
    long[last] ^= 1;
    assert_eq!(read_uncompressed::<C, P>(&long), Err(PointFault::OffCurve));
    let x = (1u64..).map(P::BaseField::from).find(|x| Affine::<P>::get_ys_from_x_unchecked(*x).is_none()).unwrap();
    let bogus = Affine::<P>::new_unchecked(x, P::BaseField::ONE);
    assert_eq!(decompress::<C, P>(&compressed::<C, P>(&bogus)), Err(PointFault::OffCurve));
}

fn check_length<C: Curve, P: SWCurveConfig>() {
    let (short, long) = (compressed::<C, P>(&Affine::generator()), uncompressed::<C, P>(&Affine::generator()));
    for length in 0..=long.len() + 1 {
        let bytes: Vec<u8> = long.iter().copied().chain([0]).take(length).collect();
        if length != short.len() {
            assert_eq!(decompress::<C, P>(&bytes), Err(PointFault::Length));
        }
        if length != long.len() {
            assert_eq!(read_uncompressed::<C, P>(&bytes), Err(PointFault::Length));
        }
    }
}

fn check_subgroup<C: Curve, P: SWCurveConfig>() {
    let stray = stray::<P>();
    assert_eq!(decompress::<C, P>(&compressed::<C, P>(&stray)), Err(PointFault::Subgroup));
    assert_eq!(read_uncompressed::<C, P>(&uncompressed::<C, P>(&stray)), Err(PointFault::Subgroup));
}

/// A test per rule, on all four groups.
macro_rules! rules {
    ($($name:ident: $check:ident;)*) => {$(
        #[test]
        fn $name() {
            $check::<Bn254, <Bn254 as Curve>::G1>();
            $check::<Bn254, <Bn254 as Curve>::G2>();
            $check::<Bls381, <Bls381 as Curve>::G1>();
            $check::<Bls381, <Bls381 as Curve>::G2>();
        }
    )*};
}

rules! {
    flags_are_the_only_ones_allowed: check_flags;
    infinity_has_one_encoding: check_infinity;
    coordinates_are_below_the_modulus: check_canonical;
    points_are_on_the_curve: check_off_curve;
    lengths_are_exact: check_length;
}

/// G1 of BN254 is the whole curve, so that it has no such point.
#[test]
fn points_are_in_the_subgroup() {
    check_subgroup::<Bn254, <Bn254 as Curve>::G2>();
    check_subgroup::<Bls381, <Bls381 as Curve>::G1>();
    check_subgroup::<Bls381, <Bls381 as Curve>::G2>();
}

/// The generators as the specifications of BLS12-381 print them (compressed form, first bytes).
#[test]
fn generators_of_bls12_381_have_their_published_form() {
    let g1 = hex(&compressed::<Bls381, <Bls381 as Curve>::G1>(&G1Affine::<Bls381>::generator()));
    assert!(g1.starts_with("97f1d3a73197d7942695638c4fa9ac0f"), "{g1}");
    assert!(g1.ends_with("3af00adb22c6bb"), "{g1}");
    let g2 = hex(&compressed::<Bls381, <Bls381 as Curve>::G2>(&G2Affine::<Bls381>::generator()));
    assert!(g2.starts_with("93e02b6052719f607dacd3a088274f65"), "{g2}");
    let infinity = hex(&compressed::<Bls381, <Bls381 as Curve>::G1>(&G1Affine::<Bls381>::zero()));
    assert_eq!(infinity, format!("c0{}", "00".repeat(47)));
}
