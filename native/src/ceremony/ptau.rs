//! The `.ptau` file of snarkjs (binary container of iden3: little-endian, numbered sections), read and written.
//!
//! Read: header (1), powers (2 to 6) and contributions (7), each exactly once; sections 12 to 15 of a prepared file
//! (Lagrange bases) are not used here, so they are neither read nor checked. Points in Montgomery form.

use std::io::{Read, Seek, SeekFrom, Write};

use ark_ff::{Field, PrimeField};

use crate::ceremony::chain::{Codecs, Contribution, CONTRIBUTIONS_MAX};

use crate::ceremony::phase1::{check_power, Phase1, CEREMONY_POWER_MAX};
use crate::ceremony::secret::Beacon;
use crate::ceremony::stream::{io_error, Form, Sink, Source};
use crate::ceremony::transcript::{read_points, write_points};
use crate::curve::{Curve, CurveId};
use crate::error::{Error, Result};

pub const FORMAT: &str = "ptau-format";
pub const MAGIC: &[u8; 4] = b"ptau";
const VERSION: u32 = 1;
/// Eleven kinds exist.
const SECTIONS_MAX: u32 = 32;
/// Seven for the ceremony, four for its prepared form.
const KNOWN: [u32; 11] = [1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 15];
const NEEDED: std::ops::RangeInclusive<u32> = 1..=7;
/// Prime, its length, two powers.
const HEADER_BYTES_MAX: u64 = 4 + 48 + 8;
const BEACON: u32 = 1;
/// Name, exponent and beacon at their longest.
const PARAMETERS_MAX: u32 = 2 + 255 + 2 + 2 + 255;

struct Section {
    kind: u32,
    start: u64,
    length: u64,
}

/// The table of sections of a file of `length` bytes.
pub struct Sections<F> {
    file: F,
    table: Vec<Section>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub curve: CurveId,
    pub power: u32,
    pub ceremony_power: u32,
}

fn fail<T>(detail: impl Into<String>) -> Result<T> {
    Err(Error::new(FORMAT, detail.into()))
}

impl<F: Read + Seek> Sections<F> {
    pub fn open(mut file: F, length: u64) -> Result<Self> {
        let mut head = Source::new(&mut file, length, FORMAT);
        if head.array::<4>()? != *MAGIC {
            return fail("wrong magic, expected ptau");
        }
        let (version, count) = (head.u32_le()?, head.u32_le()?);
        if version != VERSION || count > SECTIONS_MAX {
            return fail(format!(
                "version {version} with {count} sections, expected {VERSION}, at most {SECTIONS_MAX}"
            ));
        }
        let (mut at, mut table) = (length - head.left(), Vec::new());
        for _ in 0..count {
            file.seek(SeekFrom::Start(at)).map_err(|e| io_error(&e))?;
            let mut entry = Source::new(&mut file, length - at, FORMAT);
            let (kind, size) = (entry.u32_le()?, entry.u64_le()?);
            if size > entry.left() {
                return fail(format!("section {kind} of {size} bytes reaches beyond the file"));
            }
            if !KNOWN.contains(&kind) || table.iter().any(|section: &Section| section.kind == kind) {
                return fail(format!("section {kind} is unknown or occurs twice"));
            }
            let start = length - entry.left();
            table.push(Section { kind, start, length: size });
            at = start + size;
        }
        if at != length {
            return fail(format!("{} trailing bytes", length - at));
        }
        match NEEDED.into_iter().find(|kind| !table.iter().any(|section| section.kind == *kind)) {
            Some(kind) => fail(format!("no section {kind}")),
            None => Ok(Self { file, table }),
        }
    }

    /// The Lagrange bases of a prepared file are there.
    pub fn prepared(&self) -> bool {
        self.table.iter().any(|section| !NEEDED.contains(&section.kind))
    }

    fn section(&mut self, kind: u32) -> Result<Source<&mut F>> {
        let Some(section) = self.table.iter().find(|section| section.kind == kind) else {
            return fail(format!("no section {kind}"));
        };
        self.file.seek(SeekFrom::Start(section.start)).map_err(|e| io_error(&e))?;
        Ok(Source::new(&mut self.file, section.length, FORMAT))
    }

    pub fn header(&mut self) -> Result<Header> {
        let mut source = self.section(1)?;
        if source.left() > HEADER_BYTES_MAX {
            return source.fail("a header that is too long");
        }
        let length = source.u32_le()?;
        let prime = source.take(length as usize)?;
        let (power, ceremony_power) = (source.u32_le()?, source.u32_le()?);
        source.finish()?;
        let curve = match prime {
            prime if prime == modulus::<ark_bn254::Fq>() => CurveId::Bn254,
            prime if prime == modulus::<ark_bls12_381::Fq>() => CurveId::Bls381,
            _ => return fail("a curve other than BN254 (bn128) and BLS12-381"),
        };
        if !(1..=CEREMONY_POWER_MAX).contains(&power) || !(power..=CEREMONY_POWER_MAX).contains(&ceremony_power) {
            return fail(format!("power {power} of {ceremony_power}, at most {CEREMONY_POWER_MAX}"));
        }
        Ok(Header { curve, power, ceremony_power })
    }

    /// The first 2^`power` powers (default: all) with the history.
    pub fn read<C: Curve>(&mut self, power: Option<u32>) -> Result<Phase1<C>> {
        let header = self.header()?;
        let power = power.unwrap_or(header.power);
        check_power(power)?;
        if power > header.power {
            return Err(Error::new("phase1-power", format!("power {power} of a file with power {}", header.power)));
        }
        if header.curve.byte() != C::ID {
            return fail(format!("a file on curve {}, expected {}", header.curve.name(), C::NAME));
        }
        let codecs = Codecs::<C>::default();
        let (all, n) = (1u64 << header.power, 1usize << power);
        let (first, second) = (codecs.first.montgomery_bytes() as u64, codecs.second.montgomery_bytes() as u64);
        for (kind, length) in [(2, (2 * all - 1) * first), (3, all * second), (4, all * first), (5, all * first)] {
            let found = self.section(kind)?.left();
            if found != length {
                return fail(format!("section {kind} has {found} bytes, expected {length}"));
            }
        }
        let form = Form::Montgomery;
        let tau_1 = self.section(2)?.finite(&codecs.first, form, 2 * n - 1, "tau")?;
        let tau_2 = self.section(3)?.finite(&codecs.second, form, n, "tau in G2")?;
        let alpha_1 = self.section(4)?.finite(&codecs.first, form, n, "alpha*tau")?;
        let beta_1 = self.section(5)?.finite(&codecs.first, form, n, "beta*tau")?;
        let mut source = self.section(6)?;
        let beta_2 = source.point(&codecs.second, form, "beta in G2")?;
        source.finish()?;
        let contributions = read_contributions(&mut self.section(7)?, &codecs)?;
        let ceremony_power = header.ceremony_power;
        Ok(Phase1 { power, ceremony_power, tau_1, tau_2, alpha_1, beta_1, beta_2, contributions })
    }
}

fn modulus<F: PrimeField>() -> Vec<u8> {
    F::MODULUS.as_ref().iter().flat_map(|limb| limb.to_le_bytes()).collect()
}

fn read_contributions<C: Curve, R: Read>(source: &mut Source<R>, codecs: &Codecs<C>) -> Result<Vec<Contribution<C>>> {
    let count = source.u32_le()?;
    if count > CONTRIBUTIONS_MAX {
        return source.fail(format!("{count} contributions, at most {CONTRIBUTIONS_MAX}"));
    }
    let mut out = Vec::new();
    for _ in 0..count {
        let (marks, keys) = read_points(source, codecs, Form::Montgomery)?;
        let (state, next_challenge) = (source.array()?, source.array()?);
        let (kind, length) = (source.u32_le()?, source.u32_le()?);
        if kind > BEACON || length > PARAMETERS_MAX {
            return source.fail(format!("a contribution of kind {kind} with {length} bytes of parameters"));
        }
        let (name, beacon) = read_parameters(source, u64::from(length))?;
        if (kind == BEACON) != beacon.is_some() {
            return source.fail("a beacon without its parameters, or parameters without a beacon");
        }
        out.push(Contribution { marks, keys, state, next_challenge, name, beacon });
    }
    if source.left() != 0 {
        return source.fail(format!("{} trailing bytes after the contributions", source.left()));
    }
    Ok(out)
}

/// Tagged values in ascending order: 1 name, 2 exponent, 3 beacon.
fn read_parameters<R: Read>(source: &mut Source<R>, length: u64) -> Result<(Option<String>, Option<Beacon>)> {
    if length > source.left() {
        return source.fail("truncated parameters");
    }
    let end = source.left() - length;
    let (mut name, mut exponent, mut value, mut last) = (None, None, None, 0);
    while source.left() > end {
        let tag = source.u8()?;
        if tag <= last {
            return source.fail("parameters of a contribution out of order");
        }
        last = tag;
        match tag {
            1 => name = Some(source.text()?),
            2 => exponent = Some(source.u8()?),
            3 => value = Some(source.short_bytes()?),
            _ => return source.fail(format!("unknown parameter {tag} of a contribution")),
        }
    }
    if source.left() != end {
        return source.fail("parameters of a contribution reach beyond their length");
    }
    let beacon = match (exponent, value) {
        (None, None) => None,
        (Some(exponent), Some(value)) => Some(Beacon { value, exponent }),
        _ => return source.fail("half a beacon"),
    };
    if let Some(beacon) = &beacon {
        beacon.check().or_else(|detail| source.fail(detail))?;
    }
    Ok((name.filter(|name| !name.is_empty()), beacon))
}

/// Writes an unprepared file.
pub fn write<C: Curve>(phase1: &Phase1<C>, out: impl Write) -> Result<()> {
    let codecs = Codecs::<C>::default();
    let prime = modulus::<<<C::G1 as ark_ec::CurveConfig>::BaseField as Field>::BasePrimeField>();
    let mut sink = Sink::new(out);
    sink.bytes(MAGIC)?;
    sink.bytes(&[VERSION.to_le_bytes(), 7u32.to_le_bytes()].concat())?;
    section(&mut sink, 1, 4 + prime.len() + 8)?;
    sink.bytes(&(prime.len() as u32).to_le_bytes())?;
    sink.bytes(&prime)?;
    sink.bytes(&[phase1.power.to_le_bytes(), phase1.ceremony_power.to_le_bytes()].concat())?;
    let (first, second) = (codecs.first.montgomery_bytes(), codecs.second.montgomery_bytes());
    section(&mut sink, 2, phase1.tau_1.len() * first)?;
    sink.points(&codecs.first, Form::Montgomery, &phase1.tau_1)?;
    section(&mut sink, 3, phase1.tau_2.len() * second)?;
    sink.points(&codecs.second, Form::Montgomery, &phase1.tau_2)?;
    for (kind, points) in [(4, &phase1.alpha_1), (5, &phase1.beta_1)] {
        section(&mut sink, kind, points.len() * first)?;
        sink.points(&codecs.first, Form::Montgomery, points)?;
    }
    section(&mut sink, 6, second)?;
    sink.points(&codecs.second, Form::Montgomery, &[phase1.beta_2])?;
    let mut history = Vec::new();
    write_contributions(phase1, &codecs, &mut history)?;
    section(&mut sink, 7, history.len())?;
    sink.bytes(&history)?;
    sink.finish().map(|_| ())
}

fn section<W: Write>(sink: &mut Sink<W>, kind: u32, length: usize) -> Result<()> {
    sink.bytes(&kind.to_le_bytes())?;
    sink.bytes(&(length as u64).to_le_bytes())
}

fn write_contributions<C: Curve>(phase1: &Phase1<C>, codecs: &Codecs<C>, out: &mut Vec<u8>) -> Result<()> {
    let mut sink = Sink::new(out);
    sink.bytes(&(phase1.contributions.len() as u32).to_le_bytes())?;
    for contribution in &phase1.contributions {
        write_points(&mut sink, codecs, Form::Montgomery, contribution)?;
        sink.bytes(&contribution.state)?;
        sink.bytes(&contribution.next_challenge)?;
        let mut parameters = Vec::new();
        if let Some(name) = &contribution.name {
            parameters.extend([1, name.len() as u8]);
            parameters.extend(name.as_bytes());
        }
        if let Some(beacon) = &contribution.beacon {
            parameters.extend([2, beacon.exponent, 3, beacon.value.len() as u8]);
            parameters.extend(&beacon.value);
        }
        let kind = if contribution.beacon.is_some() { BEACON } else { 0 };
        sink.bytes(&[kind.to_le_bytes(), (parameters.len() as u32).to_le_bytes()].concat())?;
        sink.bytes(&parameters)?;
    }
    sink.finish().map(|_| ())
}
