//! Both phases on both curves: honest ones verify, and one test for every way to break them.
#![allow(clippy::unwrap_used)]

use std::io::Cursor;

use ark_ec::AffineRepr;

use super::chain::Contribution;
use super::groups::{Bls381, Bn254, Groups};
use super::phase1::Phase1;
use super::secret::Beacon;
use super::{ptau, transcript};

const POWER: u32 = 4;

fn phase1<C: Groups>(contributors: usize) -> Phase1<C> {
    let mut out = Phase1::new(POWER).unwrap();
    for i in 0..contributors {
        out.contribute(&format!("contributor {i}"), b"dice").unwrap();
    }
    out
}

fn beacon() -> Beacon {
    Beacon::new(vec![7; 32], 10).unwrap()
}

fn code<C: Groups>(phase1: &Phase1<C>) -> &'static str {
    phase1.verify().unwrap_err().code
}

fn honest<C: Groups>() {
    let mut made = phase1::<C>(2);
    made.end_with_beacon("draw of a lottery", beacon()).unwrap();
    let report = made.verify().unwrap();
    assert!(report.powers_hashed);
    let names: Vec<_> = report.contributors.iter().map(|c| (c.name.as_deref().unwrap(), c.beacon)).collect();
    assert_eq!(names, [("contributor 0", false), ("contributor 1", false), ("draw of a lottery", true)]);

    let mut file = Vec::new();
    let digest = transcript::write(&made, &mut file).unwrap();
    let (read, found) = transcript::read::<C>(Cursor::new(&file), file.len() as u64).unwrap();
    assert_eq!((&read, found), (&made, digest));

    let mut exported = Vec::new();
    ptau::write(&made, &mut exported).unwrap();
    let mut sections = ptau::Sections::open(Cursor::new(&exported), exported.len() as u64).unwrap();
    assert!(!sections.prepared());
    assert_eq!(sections.read::<C>(None).unwrap(), made);
    let cut = sections.read::<C>(Some(3)).unwrap();
    assert_eq!((cut.power, cut.ceremony_power, cut.tau_1.len()), (3, POWER, 15));
    assert!(!cut.verify().unwrap().powers_hashed);
    assert_eq!(cut.clone().contribute("late", b"").unwrap_err().code, "phase1-reduced");
}

#[test]
fn an_honest_phase_1_verifies_and_passes_through_both_formats() {
    honest::<Bn254>();
    honest::<Bls381>();
}

#[test]
fn powers_that_nobody_contributed_to() {
    let mut made = phase1::<Bn254>(0);
    assert_eq!(code(&made), "phase1-empty");
    made.end_with_beacon("only a beacon", beacon()).unwrap();
    assert_eq!(code(&made), "phase1-empty");
}

type Break = fn(&mut Phase1<Bn254>);

#[test]
fn broken_phase_1_files_are_refused_by_name() {
    let cases: Vec<(&str, Break)> = vec![
        ("phase1-start", |p| p.tau_1[0] = p.tau_1[1]),
        ("phase1-start", |p| p.tau_2[0] = p.tau_2[1]),
        ("phase1-powers", |p| p.tau_1[5] = p.tau_1[4]),
        ("phase1-powers", |p| *p.tau_1.last_mut().unwrap() = p.tau_1[1]),
        ("phase1-powers", |p| p.tau_2[5] = p.tau_2[4]),
        ("phase1-powers", |p| p.alpha_1[3] = p.alpha_1[2]),
        ("phase1-powers", |p| p.beta_1[3] = p.beta_1[2]),
        ("phase1-powers", |p| p.beta_2 = p.tau_2[1]),
        ("phase1-history", |p| p.contributions.swap(0, 1)),
        ("phase1-history", |p| drop(p.contributions.remove(0))),
        ("phase1-history", |p| p.contributions.push(p.contributions[1].clone())),
        ("phase1-end", |p| drop(p.contributions.pop())),
        ("phase1-history", |p| p.contributions[0].keys[0].product_2 = p.contributions[0].keys[1].product_2),
        ("phase1-history", |p| p.contributions[1].marks.tau_2 = p.contributions[0].marks.tau_2),
        ("phase1-history", |p| p.contributions[0].next_challenge[0] ^= 1),
        ("phase1-hash", |p| p.contributions[1].next_challenge[0] ^= 1),
        ("phase1-hash", |p| p.contributions[1].state[0] ^= 1),
    ];
    let made = phase1::<Bn254>(2);
    for (i, (expected, damage)) in cases.into_iter().enumerate() {
        let mut broken = made.clone();
        damage(&mut broken);
        assert_eq!(code(&broken), expected, "case {i}");
    }
}

/// Keys of τ = α = β = 1 prove knowledge of 1, which changes nothing.
#[test]
fn a_contribution_of_ones_is_refused() {
    let mut made = phase1::<Bn254>(1);
    let last = made.contributions[0].clone();
    let base = last.keys[0].base;
    let codecs = super::chain::Codecs::<Bn254>::default();
    let keys = codecs.identity_keys(&last.next_challenge, base);
    made.contributions.push(Contribution { keys, ..last });
    let error = made.verify().unwrap_err();
    assert_eq!(error.code, "phase1-history");
    assert!(error.detail.contains("multiplied by one"), "{}", error.detail);
}

#[test]
fn a_beacon_has_the_keys_of_its_value() {
    let mut made = phase1::<Bn254>(1);
    made.end_with_beacon("draw", beacon()).unwrap();
    made.contributions[1].beacon = Some(Beacon::new(vec![8; 32], 10).unwrap());
    let error = made.verify().unwrap_err();
    assert!(error.code == "phase1-history" && error.detail.contains("beacon"), "{error}");
    for (value, exponent) in [(vec![1], 9), (vec![1], 25), (vec![], 10), (vec![1; 256], 10)] {
        assert_eq!(Beacon::new(value, exponent).unwrap_err().code, "beacon");
    }
}

#[test]
fn names_are_short_and_printable() {
    let mut made = phase1::<Bn254>(0);
    for name in ["", "a\nb", &"x".repeat(65)] {
        assert_eq!(made.contribute(name, b"").unwrap_err().code, "name", "{name:?}");
    }
}

/// Every cut and a sweep of single bytes: a value or `phase1-format`/`ptau-format`, never a panic.
#[test]
fn damaged_files_are_refused_without_a_panic() {
    let mut made = Phase1::<Bn254>::new(2).unwrap();
    made.contribute("one", b"").unwrap();
    let mut file = Vec::new();
    transcript::write(&made, &mut file).unwrap();
    let mut exported = Vec::new();
    ptau::write(&made, &mut exported).unwrap();
    let read = |bytes: &[u8]| transcript::read::<Bn254>(Cursor::new(bytes), bytes.len() as u64).map(|(p, _)| p);
    let import = |bytes: &[u8]| {
        ptau::Sections::open(Cursor::new(bytes), bytes.len() as u64).and_then(|mut s| s.read::<Bn254>(None))
    };
    let attempts: [(&str, &Vec<u8>, &dyn Fn(&[u8]) -> crate::error::Result<Phase1<Bn254>>); 2] =
        [("phase1-format", &file, &read), ("ptau-format", &exported, &import)];
    for (expected, bytes, parse) in attempts {
        for cut in (0..bytes.len()).step_by(7) {
            let error = parse(&bytes[..cut]).unwrap_err();
            assert_eq!(error.code, expected, "cut at {cut}: {error}");
        }
        for at in (0..bytes.len()).step_by(5) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            match parse(&damaged) {
                Err(error) => assert!([expected, "phase1-power"].contains(&error.code), "byte {at}: {error}"),
                Ok(read) => assert!(read != made || read.verify().is_ok(), "byte {at} means nothing"),
            }
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert_eq!(parse(&longer).unwrap_err().code, expected);
    }
}

#[test]
fn infinity_is_no_power() {
    let mut made = phase1::<Bn254>(1);
    made.tau_1[3] = ark_bn254::G1Affine::zero();
    let mut file = Vec::new();
    transcript::write(&made, &mut file).unwrap();
    let error = transcript::read::<Bn254>(Cursor::new(&file), file.len() as u64).unwrap_err();
    assert!(error.detail.contains("tau[3] is the point at infinity"), "{error}");
}
