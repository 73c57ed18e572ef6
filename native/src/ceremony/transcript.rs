//! The phase 1 file `SITSPT01`, big-endian, points compressed:
//!
//! ```text
//! 8  b"SITSPT01"    u8 curve   u8 power p   u8 ceremony power   u32 contributions
//! contribution      tau_1, tau_2, alpha_1, beta_1, beta_2 after it
//!                   for tau, alpha, beta: s (G1), s·x (G1), x·R (G2)
//!                   216 bytes hash state, 64 bytes next challenge
//!                   name: u8 length, UTF-8 (0: none)    beacon: u8 exponent (0: none), then u8 length, bytes
//! powers            tau_1[2^(p+1) − 1], tau_2[2^p], alpha_1[2^p], beta_1[2^p], beta_2
//! ```
//! Its SHA-256 names the phase 1 in transcripts of phase 2.

use std::io::{Read, Write};

use crate::ceremony::chain::{Codecs, Contribution, KeyProof, Marks, CONTRIBUTIONS_MAX};

use crate::ceremony::phase1::{Phase1, CEREMONY_POWER_MAX, FORMAT, POWER_MAX, POWER_MIN};
use crate::ceremony::secret::Beacon;
use crate::ceremony::stream::{Form, Sink, Source};
use crate::curve::{Curve, CurveId};
use crate::error::{Error, Result};

pub const MAGIC: &[u8; 8] = b"SITSPT01";

/// Writes the file; returns its SHA-256.
pub fn write<C: Curve>(phase1: &Phase1<C>, out: impl Write) -> Result<[u8; 32]> {
    let codecs = Codecs::<C>::default();
    let mut sink = Sink::new(out);
    sink.bytes(MAGIC)?;
    sink.bytes(&[C::ID, phase1.power as u8, phase1.ceremony_power as u8])?;
    sink.bytes(&(phase1.contributions.len() as u32).to_be_bytes())?;
    for contribution in &phase1.contributions {
        write_points(&mut sink, &codecs, Form::Compressed, contribution)?;
        sink.bytes(&contribution.state)?;
        sink.bytes(&contribution.next_challenge)?;
        sink.short_bytes(contribution.name.as_deref().unwrap_or_default().as_bytes())?;
        write_beacon(&mut sink, contribution.beacon.as_ref())?;
    }
    sink.points(&codecs.first, Form::Compressed, &phase1.tau_1)?;
    sink.points(&codecs.second, Form::Compressed, &phase1.tau_2)?;
    sink.points(&codecs.first, Form::Compressed, &phase1.alpha_1)?;
    sink.points(&codecs.first, Form::Compressed, &phase1.beta_1)?;
    sink.points(&codecs.second, Form::Compressed, &[phase1.beta_2])?;
    sink.finish()
}

pub fn write_beacon<W: Write>(sink: &mut Sink<W>, beacon: Option<&Beacon>) -> Result<()> {
    match beacon {
        None => sink.bytes(&[0]),
        Some(beacon) => {
            sink.bytes(&[beacon.exponent])?;
            sink.short_bytes(&beacon.value)
        }
    }
}

/// The counterpart of [`write_beacon`].
pub fn read_beacon<R: Read>(source: &mut Source<R>) -> Result<Option<Beacon>> {
    match source.u8()? {
        0 => Ok(None),
        exponent => {
            let beacon = Beacon { exponent, value: source.short_bytes()? };
            beacon.check().or_else(|detail| source.fail(detail))?;
            Ok(Some(beacon))
        }
    }
}

/// Marks and keys of a contribution, in the order of the files.
pub fn write_points<C: Curve, W: Write>(
    sink: &mut Sink<W>,
    codecs: &Codecs<C>,
    form: Form,
    contribution: &Contribution<C>,
) -> Result<()> {
    let marks = &contribution.marks;
    sink.points(&codecs.first, form, &[marks.tau_1])?;
    sink.points(&codecs.second, form, &[marks.tau_2])?;
    sink.points(&codecs.first, form, &[marks.alpha_1, marks.beta_1])?;
    sink.points(&codecs.second, form, &[marks.beta_2])?;
    for key in &contribution.keys {
        sink.points(&codecs.first, form, &[key.base, key.product])?;
    }
    sink.points(&codecs.second, form, &contribution.keys.map(|key| key.product_2))
}

/// The counterpart of [`write_points`]; infinity is refused everywhere.
pub fn read_points<C: Curve, R: Read>(
    source: &mut Source<R>,
    codecs: &Codecs<C>,
    form: Form,
) -> Result<(Marks<C>, [KeyProof<C>; 3])> {
    let tau_1 = source.point(&codecs.first, form, "tau of a contribution")?;
    let tau_2 = source.point(&codecs.second, form, "tau of a contribution in G2")?;
    let greek = source.finite(&codecs.first, form, 2, "alpha and beta of a contribution")?;
    let beta_2 = source.point(&codecs.second, form, "beta of a contribution in G2")?;
    let first = source.finite(&codecs.first, form, 6, "key of a contribution")?;
    let second = source.finite(&codecs.second, form, 3, "key of a contribution in G2")?;
    let key = |i: usize| KeyProof { base: first[2 * i], product: first[2 * i + 1], product_2: second[i] };
    Ok((Marks { tau_1, tau_2, alpha_1: greek[0], beta_1: greek[1], beta_2 }, [key(0), key(1), key(2)]))
}

/// The curve of a file, from its first nine bytes.
pub fn curve(head: &[u8]) -> Result<CurveId> {
    match head {
        [magic @ .., id] if magic == MAGIC => {
            CurveId::from_byte(*id).ok_or_else(|| Error::new(FORMAT, format!("unknown curve {id}")))
        }
        _ => Err(Error::new(FORMAT, "not a phase 1 file (SITSPT01)")),
    }
}

/// Reads a file of `length` bytes; returns it with its SHA-256. Error `phase1-format`.
pub fn read<C: Curve>(file: impl Read, length: u64) -> Result<(Phase1<C>, [u8; 32])> {
    let codecs = Codecs::<C>::default();
    let mut source = Source::new(file, length, FORMAT);
    if curve(&source.take(MAGIC.len() + 1)?)?.byte() != C::ID {
        return source.fail(format!("another curve, expected {}", C::NAME));
    }
    let (power, ceremony_power) = (u32::from(source.u8()?), u32::from(source.u8()?));
    check_powers(&source, power, ceremony_power)?;
    let count = source.u32()?;
    if count > CONTRIBUTIONS_MAX {
        return source.fail(format!("{count} contributions, at most {CONTRIBUTIONS_MAX}"));
    }
    let mut contributions = Vec::new();
    for _ in 0..count {
        contributions.push(read_contribution(&mut source, &codecs)?);
    }
    let n = 1usize << power;
    let phase1 = Phase1 {
        power,
        ceremony_power,
        tau_1: source.finite(&codecs.first, Form::Compressed, 2 * n - 1, "tau")?,
        tau_2: source.finite(&codecs.second, Form::Compressed, n, "tau in G2")?,
        alpha_1: source.finite(&codecs.first, Form::Compressed, n, "alpha*tau")?,
        beta_1: source.finite(&codecs.first, Form::Compressed, n, "beta*tau")?,
        beta_2: source.point(&codecs.second, Form::Compressed, "beta in G2")?,
        contributions,
    };
    let digest = source.finish()?;
    Ok((phase1, digest))
}

pub fn check_powers<R: Read>(source: &Source<R>, power: u32, ceremony_power: u32) -> Result<()> {
    if !(POWER_MIN..=POWER_MAX).contains(&power) {
        return source.fail(format!("power {power}, allowed {POWER_MIN} to {POWER_MAX}"));
    }
    if !(power..=CEREMONY_POWER_MAX).contains(&ceremony_power) {
        return source.fail(format!("ceremony power {ceremony_power}, allowed {power} to {CEREMONY_POWER_MAX}"));
    }
    Ok(())
}

fn read_contribution<C: Curve, R: Read>(source: &mut Source<R>, codecs: &Codecs<C>) -> Result<Contribution<C>> {
    let (marks, keys) = read_points(source, codecs, Form::Compressed)?;
    let (state, next_challenge) = (source.array()?, source.array()?);
    let name = Some(source.text()?).filter(|name| !name.is_empty());
    Ok(Contribution { marks, keys, state, next_challenge, name, beacon: read_beacon(source)? })
}
