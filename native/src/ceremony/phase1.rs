//! Phase 1: [τ^i]₁ to 2^(p+1) − 2, [τ^i]₂, [ατ^i]₁, [βτ^i]₁ below 2^p, [β]₂, and how they came about.

use ark_ec::short_weierstrass::{Affine, SWCurveConfig};
use ark_ff::{AdditiveGroup, Field};
use zeroize::Zeroizing;

use crate::ceremony::blake2b::Blake2b;
use crate::ceremony::chain::{
    check_name, first_challenge, Challenge, Codecs, Contribution, Keys, Marks, CONTRIBUTIONS_MAX,
};
use crate::ceremony::groups::{combine, generator_1, generator_2, halves, points, random_coefficients, same_ratio};
use crate::ceremony::points::Codec;
use crate::ceremony::secret::Beacon;
use crate::curve::{Curve, G1Affine, G2Affine};
use crate::error::{Error, Result};

pub const FORMAT: &str = "phase1-format";
/// Four powers are the smallest that hold any circuit.
pub const POWER_MIN: u32 = 2;
/// 2^20 rows are the circuit format's limit; on BLS12-381 the points then take 0.7 GiB of memory.
pub const POWER_MAX: u32 = 20;
/// The largest public ceremony; a file cut down from it still names it.
pub const CEREMONY_POWER_MAX: u32 = 28;
/// Points hashed or multiplied at a time. Few in tests, so that small files have pieces too.
const CHUNK_POINTS: usize = if cfg!(test) { 6 } else { 1 << 14 };

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Phase1<C: Curve> {
    pub power: u32,
    /// The power the contributions were made with; above `power` for a file cut down.
    pub ceremony_power: u32,
    pub tau_1: Vec<G1Affine<C>>,
    pub tau_2: Vec<G2Affine<C>>,
    pub alpha_1: Vec<G1Affine<C>>,
    pub beta_1: Vec<G1Affine<C>>,
    pub beta_2: G2Affine<C>,
    pub contributions: Vec<Contribution<C>>,
}

/// What [`Phase1::verify`] found about one contribution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contributor {
    pub name: Option<String>,
    pub beacon: bool,
    /// Hash of the contributor's response: what it published, and can look for here.
    pub hash: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub contributors: Vec<Contributor>,
    /// Whether the last challenge was recomputed from the powers: not possible in a file cut down.
    pub powers_hashed: bool,
}

pub fn check_power(power: u32) -> Result<()> {
    if (POWER_MIN..=POWER_MAX).contains(&power) {
        Ok(())
    } else {
        Err(Error::new("phase1-power", format!("power {power}")))
    }
}

impl<C: Curve> Phase1<C> {
    /// Powers of τ = 1, to which nobody has contributed.
    pub fn new(power: u32) -> Result<Self> {
        check_power(power)?;
        let n = 1usize << power;
        let (first, second) = (generator_1::<C>(), generator_2::<C>());
        Ok(Self {
            power,
            ceremony_power: power,
            tau_1: vec![first; 2 * n - 1],
            tau_2: vec![second; n],
            alpha_1: vec![first; n],
            beta_1: vec![first; n],
            beta_2: second,
            contributions: Vec::new(),
        })
    }

    /// Multiplies the powers by fresh secrets. Errors: `phase1-reduced` for a file cut down, `phase1-ended` after a
    /// beacon, `phase1-full`, `name`, `randomness`.
    pub fn contribute(&mut self, name: &str, entropy: &[u8]) -> Result<()> {
        check_name(name)?;
        let (codecs, challenge) = (Codecs::<C>::default(), self.challenge()?);
        let keys = codecs.fresh_keys(&challenge, entropy)?;
        self.apply(&codecs, &challenge, &keys, Some(name.to_owned()), None)
    }

    /// Ends the ceremony with public randomness, so that the last contributor could not choose the result.
    pub fn end_with_beacon(&mut self, name: &str, beacon: Beacon) -> Result<()> {
        check_name(name)?;
        let (codecs, challenge) = (Codecs::<C>::default(), self.challenge()?);
        let keys = codecs.beacon_keys(&challenge, &beacon);
        self.apply(&codecs, &challenge, &keys, Some(name.to_owned()), Some(beacon))
    }

    fn challenge(&self) -> Result<Challenge> {
        if self.power != self.ceremony_power {
            return Err(Error::new("phase1-reduced", "a file cut down from a larger one takes no contributions"));
        }
        if let Some(at) = self.contributions.iter().position(|contribution| contribution.beacon.is_some()) {
            return Err(Error::new(
                "phase1-ended",
                format!("contribution {} is a beacon, which ended phase 1", at + 1),
            ));
        }
        if self.contributions.len() >= CONTRIBUTIONS_MAX as usize {
            return Err(Error::new("phase1-full", format!("{CONTRIBUTIONS_MAX} contributions already")));
        }
        Ok(self.contributions.last().map_or_else(|| first_challenge::<C>(self.power), |last| last.next_challenge))
    }

    fn apply(
        &mut self,
        codecs: &Codecs<C>,
        challenge: &Challenge,
        keys: &Keys<C>,
        name: Option<String>,
        beacon: Option<Beacon>,
    ) -> Result<()> {
        let [tau, alpha, beta] = &keys.secrets;
        scale(&mut self.tau_1, &C::Fr::ONE, tau)?;
        scale(&mut self.tau_2, &C::Fr::ONE, tau)?;
        scale(&mut self.alpha_1, alpha, tau)?;
        scale(&mut self.beta_1, beta, tau)?;
        let mut beta_2 = [self.beta_2];
        scale(&mut beta_2, beta, tau)?;
        self.beta_2 = beta_2[0];
        let mut contribution = Contribution {
            marks: self.marks(),
            keys: keys.proofs,
            state: self.response_state(codecs, challenge)?.save(),
            next_challenge: [0; 64],
            name,
            beacon,
        };
        contribution.next_challenge = self.next_challenge(codecs, &codecs.response(&contribution)?)?;
        self.contributions.push(contribution);
        Ok(())
    }

    /// Hash of the newest response: what its contributor publishes.
    pub fn last_hash(&self) -> Result<Challenge> {
        match self.contributions.last() {
            Some(last) => Codecs::<C>::default().response(last),
            None => Err(Error::new("phase1-empty", "nobody contributed")),
        }
    }

    pub fn marks(&self) -> Marks<C> {
        Marks {
            tau_1: self.tau_1[1],
            tau_2: self.tau_2[1],
            alpha_1: self.alpha_1[0],
            beta_1: self.beta_1[0],
            beta_2: self.beta_2,
        }
    }

    fn response_state(&self, codecs: &Codecs<C>, challenge: &Challenge) -> Result<Blake2b> {
        let mut hash = Blake2b::default();
        hash.update(challenge);
        hash_points(&mut hash, &self.tau_1, &codecs.first, Codec::write_short)?;
        hash_points(&mut hash, &self.tau_2, &codecs.second, Codec::write_short)?;
        hash_points(&mut hash, &self.alpha_1, &codecs.first, Codec::write_short)?;
        hash_points(&mut hash, &self.beta_1, &codecs.first, Codec::write_short)?;
        hash_points(&mut hash, &[self.beta_2], &codecs.second, Codec::write_short)?;
        Ok(hash)
    }

    fn next_challenge(&self, codecs: &Codecs<C>, response: &Challenge) -> Result<Challenge> {
        let mut hash = Blake2b::default();
        hash.update(response);
        hash_points(&mut hash, &self.tau_1, &codecs.first, Codec::write_plain)?;
        hash_points(&mut hash, &self.tau_2, &codecs.second, Codec::write_plain)?;
        hash_points(&mut hash, &self.alpha_1, &codecs.first, Codec::write_plain)?;
        hash_points(&mut hash, &self.beta_1, &codecs.first, Codec::write_plain)?;
        hash_points(&mut hash, &[self.beta_2], &codecs.second, Codec::write_plain)?;
        Ok(hash.finish())
    }

    /// Checks, in this order, each with its code:
    ///
    /// 1. `phase1-empty`    somebody contributed (τ = 1 is known to everybody), and not only beacons
    /// 2. `phase1-start`    the powers begin with the generators
    /// 3. `phase1-powers`   all of them are powers of one τ, times one α and β
    /// 4. `phase1-history`  every contribution has valid proofs of knowledge and follows from the one before
    /// 5. `phase1-end`      the powers are those of the last contribution
    /// 6. `phase1-hash`     its response and challenge hashes are those of the powers (not in a file cut down)
    ///
    /// What earlier contributions left behind is not in the file: their challenge hashes are taken as written.
    /// Contributions after a beacon are not refused here: other tools make them, and the report shows their order.
    pub fn verify(&self) -> Result<Report> {
        let fail = |code, detail: &str| Err(Error::new(code, detail));
        let Some(last) = self.contributions.last().filter(|_| self.contributions.iter().any(|c| c.beacon.is_none()))
        else {
            return fail("phase1-empty", "nobody contributed: everybody knows these powers");
        };
        if self.tau_1[0] != generator_1::<C>() || self.tau_2[0] != generator_2::<C>() {
            return fail("phase1-start", "the powers of tau do not begin with the generators");
        }
        self.verify_powers()?;
        let codecs = Codecs::<C>::default();
        let contributors = self.verify_history(&codecs)?;
        if last.marks != self.marks() {
            return fail("phase1-end", "the powers are not those of the last contribution");
        }
        let powers_hashed = self.power == self.ceremony_power;
        if powers_hashed {
            let response = codecs.response(last)?;
            let challenge = match &self.contributions[..] {
                [.., before, _] => before.next_challenge,
                _ => first_challenge::<C>(self.power),
            };
            let mut state = self.response_state(&codecs, &challenge)?;
            state.update(&codecs.key_bytes(&last.keys));
            if state.finish() != response {
                return fail("phase1-hash", "the last response's hash is not that of the powers");
            }
            if self.next_challenge(&codecs, &response)? != last.next_challenge {
                return fail("phase1-hash", "the last challenge is not the hash of the powers");
            }
        }
        Ok(Report { contributors, powers_hashed })
    }

    fn verify_powers(&self) -> Result<()> {
        let (first, second) = (generator_1::<C>(), generator_2::<C>());
        let (tau_1, tau_2) = (&self.tau_1[1], &self.tau_2[1]);
        for (name, points) in [("tau", &self.tau_1), ("alpha*tau", &self.alpha_1), ("beta*tau", &self.beta_1)] {
            let (low, high) = shifted_sums(points)?;
            if !same_ratio::<C>(&low, &high, &second, tau_2) {
                return Err(Error::new("phase1-powers", format!("{name} in G1: not powers of one tau")));
            }
        }
        let (low, high) = shifted_sums(&self.tau_2)?;
        if !same_ratio::<C>(&first, tau_1, &low, &high) {
            return Err(Error::new("phase1-powers", "tau in G2: not powers of one tau"));
        }
        if !same_ratio::<C>(&first, &self.beta_1[0], &second, &self.beta_2) {
            return Err(Error::new("phase1-powers", "beta differs between G1 and G2"));
        }
        Ok(())
    }

    fn verify_history(&self, codecs: &Codecs<C>) -> Result<Vec<Contributor>> {
        let (mut before, mut challenge) = (Marks::<C>::start(), first_challenge::<C>(self.ceremony_power));
        let mut out = Vec::with_capacity(self.contributions.len());
        for (i, contribution) in self.contributions.iter().enumerate() {
            codecs.check_link(i + 1, &before, &challenge, contribution)?;
            (before, challenge) = (contribution.marks, contribution.next_challenge);
            out.push(Contributor {
                name: contribution.name.clone(),
                beacon: contribution.beacon.is_some(),
                hash: codecs.response(contribution)?.to_vec(),
            });
        }
        Ok(out)
    }
}

/// values[i] becomes first·step^i·values[i], a piece at a time: memory for one piece's factors and sums.
fn scale<P: SWCurveConfig>(values: &mut [Affine<P>], first: &P::ScalarField, step: &P::ScalarField) -> Result<()> {
    let mut factor = Zeroizing::new(*first);
    for piece in values.chunks_mut(CHUNK_POINTS) {
        let mut factors = Zeroizing::new(vec![P::ScalarField::ZERO; piece.len()]);
        for slot in factors.iter_mut() {
            *slot = *factor;
            *factor *= step;
        }
        let scaled = points(piece.len(), |i| piece[i] * factors[i])?;
        piece.copy_from_slice(&scaled);
    }
    Ok(())
}

/// Σ c_i·P_i and Σ c_i·P_{i+1} for random c: their ratio is τ exactly when every step's is.
fn shifted_sums<P: SWCurveConfig>(points: &[Affine<P>]) -> Result<(Affine<P>, Affine<P>)> {
    let n = points.len() - 1;
    let coefficients = random_coefficients(n)?;
    Ok((combine(&points[..n], &coefficients), combine(&points[1..], &coefficients)))
}

fn hash_points<C: Curve, P: SWCurveConfig>(
    hash: &mut Blake2b,
    points: &[Affine<P>],
    codec: &Codec<C, P>,
    write: fn(&Codec<C, P>, &Affine<P>, &mut Vec<u8>),
) -> Result<()> {
    for chunk in points.chunks(CHUNK_POINTS) {
        let bytes = halves(chunk.len(), |range| {
            let mut out = Vec::new();
            chunk[range].iter().for_each(|point| write(codec, point, &mut out));
            Ok(out)
        })?;
        hash.update(&bytes);
    }
    Ok(())
}
