//! Both phases on both curves: honest ones verify, and one test for every way to break them.
#![allow(clippy::unwrap_used)]

use std::io::Cursor;

use ark_ec::AffineRepr;

use super::chain::Contribution;
use super::phase1::Phase1;
use super::phase2::Transcript;
use super::record::Evidence;
use super::secret::Beacon;
use super::{ptau, transcript};
use crate::circuit::Circuit;
use crate::curve::{Bls381, Bn254, Curve};
use crate::prover::Prover;
use crate::verifier::Verifier;

const POWER: u32 = 4;

fn phase1<C: Curve>(contributors: usize) -> Phase1<C> {
    let mut out = Phase1::new(POWER).unwrap();
    for i in 0..contributors {
        out.contribute(&format!("contributor {i}"), b"dice").unwrap();
    }
    out
}

fn beacon() -> Beacon {
    Beacon::new(vec![7; 32], 10).unwrap()
}

fn code<C: Curve>(phase1: &Phase1<C>) -> &'static str {
    phase1.verify().unwrap_err().code
}

fn honest<C: Curve>() {
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

type Parse<'a> = &'a dyn Fn(&[u8]) -> crate::error::Result<Phase1<Bn254>>;

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
    let attempts: [(&str, &Vec<u8>, Parse<'_>); 2] =
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
                Ok(read) if expected == "phase1-format" => {
                    let mut again = Vec::new();
                    transcript::write(&read, &mut again).unwrap();
                    assert!(again == damaged, "byte {at}: two encodings of one file");
                }
                Ok(read) => assert!(read != made, "byte {at} means nothing"),
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

/// y = ReLU(x) for −16 ≤ x < 16: wires 0 one, 1 x, 2 y, 3 ctx, 4..8 bits, 8 product.
fn circuit<C: Curve>() -> Vec<u8> {
    let lc = |out: &mut Vec<u8>, terms: &[(u32, i64)]| {
        out.extend((terms.len() as u16).to_be_bytes());
        for (wire, coefficient) in terms {
            out.extend(wire.to_be_bytes());
            out.extend(coefficient.to_be_bytes());
        }
    };
    let top = [(0, 16), (1, 1), (4, -1), (5, -2), (6, -4), (7, -8)];
    let low = [(4, 1), (5, 2), (6, 4), (7, 8)];
    let mut out = b"SITSR1C1".to_vec();
    out.push(C::ID);
    [1u32, 1, 5, 3, 9].iter().for_each(|n| out.extend(n.to_be_bytes()));
    out.push(1);
    lc(&mut out, &[(0, 16), (1, 1)]);
    out.extend([4, 0, 0, 0, 4, 2]);
    lc(&mut out, &top);
    lc(&mut out, &low);
    out.extend([4, 0, 0, 0, 8, 3]);
    lc(&mut out, &[(8, 1)]);
    out.extend(0u32.to_be_bytes());
    let mut row = |a: &[(u32, i64)], b: &[(u32, i64)], c: &[(u32, i64)]| {
        [a, b, c].iter().for_each(|side| lc(&mut out, side));
    };
    (4..8).for_each(|bit| row(&[(bit, 1)], &[(0, 1), (bit, -1)], &[]));
    row(&top, &[(1, -1), (4, 1), (5, 2), (6, 4), (7, 8)], &[]);
    row(&top, &low, &[(8, 16)]);
    row(&[(2, -1), (8, 1)], &[(0, 1)], &[]);
    row(&[(1, 1)], &[], &[]);
    row(&[(3, 1)], &[], &[]);
    out
}

const DIGEST: [u8; 32] = [9; 32];

fn started<C: Curve>(contributors: usize) -> (Circuit, Phase1<C>, Transcript<C>) {
    let circuit = Circuit::parse(&circuit::<C>()).unwrap();
    let phase1 = phase1::<C>(1);
    let mut transcript = Transcript::start(&circuit, &phase1, DIGEST).unwrap();
    for i in 0..contributors {
        transcript.contribute(&format!("contributor {i}"), b"").unwrap();
    }
    (circuit, phase1, transcript)
}

fn keys_prove<C: Curve>() {
    let (circuit_1, phase1, mut transcript) = started::<C>(2);
    let last = transcript.end_with_beacon("a block's hash", beacon()).unwrap();
    let mut file = Vec::new();
    transcript.write(&mut file).unwrap();
    assert_eq!(Transcript::<C>::read(Cursor::new(&file), file.len() as u64).unwrap(), transcript);
    let verified = transcript.verify(&circuit_1, &phase1, DIGEST).unwrap();
    let names: Vec<_> = verified.contributors.iter().map(|c| (c.name.as_deref().unwrap(), c.beacon)).collect();
    assert_eq!(names, [("contributor 0", false), ("contributor 1", false), ("a block's hash", true)]);
    assert_eq!(verified.contributors[2].hash, last);
    let prover = Prover::<C>::new(&circuit::<C>(), &verified.proving_key.encode()).unwrap();
    let verifier = Verifier::new(&verified.verification_key).unwrap();
    for x in [-16, -1, 0, 7, 15] {
        let (outputs, proof) = prover.prove(&[x], &[1; 31]).unwrap();
        assert_eq!(outputs, [x.max(0)]);
        assert_eq!(verifier.verify(&[x], &outputs, &[1; 31], &proof.encode()), Ok(()));
        assert!(verifier.verify(&[x], &[x.max(0) + 1], &[1; 31], &proof.encode()).is_err());
    }
}

#[test]
fn keys_of_a_ceremony_prove_and_verify() {
    keys_prove::<Bn254>();
    keys_prove::<Bls381>();
}

type Damage = fn(&mut Transcript<Bn254>);

/// One case for every rule of `Transcript::verify`.
#[test]
fn broken_transcripts_are_refused_by_name() {
    let cases: Vec<(&str, &str, Damage)> = vec![
        ("other circuit", "setup-circuit", |t| t.header.circuit[0] ^= 1),
        ("other phase 1", "setup-phase1", |t| t.header.phase1[0] ^= 1),
        ("other start", "setup-origin", |t| t.header.origin[0] ^= 1),
        ("other sizes", "setup-origin", |t| t.header.n_wires += 1),
        ("reordered", "setup-proof", |t| t.steps.swap(0, 1)),
        ("first one missing", "setup-proof", |t| drop(t.steps.remove(0))),
        ("middle one missing", "setup-proof", |t| drop(t.steps.remove(1))),
        ("last one missing", "setup-ic", |t| drop(t.steps.pop())),
        ("all missing", "setup-empty", |t| t.steps.clear()),
        ("replayed", "setup-identity", |t| t.steps.push(t.steps[2].clone())),
        ("replayed earlier", "setup-proof", |t| t.steps.push(t.steps[0].clone())),
        ("renamed", "setup-proof", |t| t.steps[1].name.push('x')),
        ("delta of one", "setup-identity", |t| t.steps[1].delta_1 = t.steps[0].delta_1),
        ("gamma of one", "setup-identity", |t| t.steps[1].gamma_2 = t.steps[0].gamma_2),
        ("other delta", "setup-proof", |t| t.steps[1].delta_1 = t.steps[2].delta_1),
        ("other gamma", "setup-proof", |t| t.steps[1].gamma_2 = t.steps[2].gamma_2),
        ("other proof", "setup-proof", |t| t.steps[1].evidence = t.steps[2].evidence.clone()),
        ("claimed beacon", "setup-beacon", |t| t.steps[2].evidence = Evidence::Beacon(beacon())),
        ("IC", "setup-ic", |t| t.moving.ic.swap(0, 1)),
        ("K", "setup-k", |t| t.moving.k.swap(4, 5)),
        ("H", "setup-h", |t| t.moving.h.swap(4, 5)),
        ("K without the others", "setup-k", |t| t.moving.k[5] = ark_bn254::G1Affine::zero()),
    ];
    let (circuit, phase1, transcript) = started::<Bn254>(3);
    for (what, expected, damage) in cases {
        let mut broken = transcript.clone();
        damage(&mut broken);
        let error = broken.verify(&circuit, &phase1, DIGEST).err().unwrap();
        assert_eq!(error.code, expected, "{what}: {error}");
    }
}

/// A contributor who knows the secret, with δ in G2 multiplied by another one.
#[test]
fn delta_is_the_same_in_both_groups() {
    let (circuit, phase1, mut transcript) = started::<Bn254>(1);
    transcript.contribute_unequal("two-faced").unwrap();
    let error = transcript.verify(&circuit, &phase1, DIGEST).err().unwrap();
    assert_eq!(error.code, "setup-delta", "{error}");
}

#[test]
fn a_beacon_alone_is_no_contribution() {
    let (circuit, phase1, mut transcript) = started::<Bn254>(0);
    transcript.end_with_beacon("draw", beacon()).unwrap();
    assert_eq!(transcript.clone().verify(&circuit, &phase1, DIGEST).err().unwrap().code, "setup-empty");
    let Evidence::Beacon(found) = &mut transcript.steps[0].evidence else { unreachable!() };
    found.value[0] ^= 1;
    assert_eq!(transcript.verify(&circuit, &phase1, DIGEST).err().unwrap().code, "setup-beacon");
}

#[test]
fn a_beacon_ends_phase_1() {
    let mut made = phase1::<Bn254>(1);
    made.end_with_beacon("draw", beacon()).unwrap();
    let error = made.contribute("late", b"").unwrap_err();
    assert!(error.code == "phase1-ended" && error.detail.contains("contribution 2"), "{error}");
    assert_eq!(made.end_with_beacon("again", beacon()).unwrap_err().code, "phase1-ended");
    // Other tools go on after one; such a history verifies, and still takes nothing more.
    let hidden = made.contributions[1].beacon.take();
    made.contribute("late", b"").unwrap();
    made.contributions[1].beacon = hidden;
    let order: Vec<_> = made.verify().unwrap().contributors.iter().map(|c| c.beacon).collect();
    assert_eq!(order, [false, true, false]);
    assert_eq!(made.contribute("later", b"").unwrap_err().code, "phase1-ended");
}

#[test]
fn a_beacon_ends_phase_2() {
    let (circuit, phase1, mut transcript) = started::<Bn254>(1);
    transcript.end_with_beacon("draw", beacon()).unwrap();
    let error = transcript.contribute("late", b"").unwrap_err();
    assert!(error.code == "setup-ended" && error.detail.contains("contribution 2"), "{error}");
    assert_eq!(transcript.end_with_beacon("again", beacon()).unwrap_err().code, "setup-ended");
    transcript.steps.push(transcript.steps[0].clone());
    let error = transcript.verify(&circuit, &phase1, DIGEST).err().unwrap();
    assert!(error.code == "setup-ended" && error.detail.contains("contribution 3"), "{error}");
}

#[test]
fn faults_of_files_have_codes() {
    use std::io::ErrorKind;
    for (kind, code) in [
        (ErrorKind::NotFound, "file-missing"),
        (ErrorKind::IsADirectory, "file-kind"),
        (ErrorKind::AlreadyExists, "file-exists"),
        (ErrorKind::StorageFull, "disk-full"),
        (ErrorKind::PermissionDenied, "file"),
    ] {
        let error = super::stream::io_error(&std::io::Error::from(kind));
        assert_eq!(error.code, code);
        assert!(super::stream::FILE_CODES.contains(&error.code));
    }
}

#[test]
fn phase_2_refuses_what_it_cannot_start_from() {
    let parsed = Circuit::parse(&circuit::<Bn254>()).unwrap();
    let empty = phase1::<Bn254>(0);
    assert_eq!(Transcript::start(&parsed, &empty, DIGEST).unwrap_err().code, "phase1-empty");
    let mut small = Phase1::<Bn254>::new(3).unwrap();
    small.contribute("one", b"").unwrap();
    let error = Transcript::start(&parsed, &small, DIGEST).unwrap_err();
    assert!(error.code == "phase1-small" && error.detail.contains("needs 4"), "{error}");
    let other = phase1::<Bls381>(1);
    assert!(Transcript::start(&parsed, &other, DIGEST).is_err());
}

#[test]
fn damaged_transcripts_are_refused_without_a_panic() {
    let (_, _, transcript) = started::<Bn254>(1);
    let mut file = Vec::new();
    transcript.write(&mut file).unwrap();
    let parse = |bytes: &[u8]| Transcript::<Bn254>::read(Cursor::new(bytes), bytes.len() as u64);
    for cut in (0..file.len()).step_by(3) {
        assert_eq!(parse(&file[..cut]).unwrap_err().code, "transcript-format", "cut at {cut}");
    }
    for at in (0..file.len()).step_by(3) {
        let mut damaged = file.clone();
        damaged[at] ^= 1 << (at % 8);
        match parse(&damaged) {
            Err(error) => assert_eq!(error.code, "transcript-format", "byte {at}: {error}"),
            Ok(read) => {
                let mut again = Vec::new();
                read.write(&mut again).unwrap();
                assert!(again == damaged, "byte {at}: two encodings of one file");
            }
        }
    }
    file.push(0);
    assert_eq!(parse(&file).unwrap_err().code, "transcript-format");
}

/// The point at infinity as δ or γ would make keys that accept anything or nothing.
#[test]
fn zero_contributions_cannot_be_written_down() {
    let (_, _, transcript) = started::<Bn254>(1);
    for zero in [
        (|t: &mut Transcript<Bn254>| t.steps[0].delta_1 = AffineRepr::zero()) as Damage,
        |t| t.steps[0].delta_2 = AffineRepr::zero(),
        |t| t.steps[0].gamma_2 = AffineRepr::zero(),
    ] {
        let mut broken = transcript.clone();
        zero(&mut broken);
        let mut file = Vec::new();
        broken.write(&mut file).unwrap();
        let error = Transcript::<Bn254>::read(Cursor::new(&file), file.len() as u64).unwrap_err();
        assert!(error.code == "transcript-format" && error.detail.contains("infinity"), "{error}");
    }
}
