//! From phase 1 to the keys of one circuit at γ = δ = 1, by transforms in the group.
//!
//! The Lagrange basis at τ is the inverse transform of the powers: L_r(τ) = 1/n·Σ ω^(−ri)·τ^i. The H query of our
//! layout is the basis of the coset g·⟨ω⟩ times Z(τ)/Z(g), Z(τ) = τ^n − 1, so it takes powers up to 2n − 1.

use ark_ec::short_weierstrass::{Affine, Projective, SWCurveConfig};
use ark_ec::AffineRepr;
use ark_ff::{AdditiveGroup, BigInt, PrimeField};

use crate::ceremony::groups::{generator_1, generator_2, geometric, halves, points, weighted};
use crate::ceremony::phase1::Phase1;
use crate::circuit::Circuit;
use crate::curve::{Curve, G1Affine, G1Projective, G2Affine};
use crate::domain::{size_for, Domain};
use crate::error::{Error, Result};
use crate::field::inverse;

/// What contributions of phase 2 change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moving<C: Curve> {
    /// (βA + αB + C)/γ of the constant and the public signals.
    pub ic: Vec<G1Affine<C>>,
    /// The K query, over δ.
    pub k: Vec<G1Affine<C>>,
    /// The H query, over δ.
    pub h: Vec<G1Affine<C>>,
}

/// What no contribution changes, and where they start.
pub struct Origin<C: Curve> {
    pub alpha_1: G1Affine<C>,
    pub beta_1: G1Affine<C>,
    pub beta_2: G2Affine<C>,
    pub a: Vec<G1Affine<C>>,
    pub b1: Vec<G1Affine<C>>,
    pub b2: Vec<G2Affine<C>>,
    pub moving: Moving<C>,
}

/// The rows that a wire occurs in, for each of the three sides.
struct Columns<F> {
    a: Vec<Vec<(usize, F)>>,
    b: Vec<Vec<(usize, F)>>,
    c: Vec<Vec<(usize, F)>>,
}

impl<F: PrimeField<BigInt = BigInt<4>>> Columns<F> {
    fn new(circuit: &Circuit) -> Self {
        let empty = || vec![Vec::new(); circuit.n_wires() as usize];
        let mut out = Self { a: empty(), b: empty(), c: empty() };
        for (row, [a, b, c]) in circuit.rows().enumerate() {
            for (column, terms) in [(&mut out.a, a), (&mut out.b, b), (&mut out.c, c)] {
                terms.into_iter().for_each(|(wire, coefficient)| column[wire as usize].push((row, coefficient)));
            }
        }
        out
    }
}

fn sum<P: SWCurveConfig>(column: &[(usize, P::ScalarField)], basis: &[Affine<P>]) -> Projective<P> {
    weighted(&column.iter().map(|(row, coefficient)| (basis[*row], *coefficient)).collect::<Vec<_>>())
}

/// Smallest power of a phase 1 for this many rows.
pub fn power_for<C: Curve>(rows: usize) -> u32 {
    let mut power = 1;
    while (1usize << (power + 1)) - 1 < 2 * size_for::<C>(rows) {
        power += 1;
    }
    power
}

/// Errors: `phase1-small`; `circuit-unbound` if a public signal occurs in no constraint.
pub fn derive<C: Curve>(circuit: &Circuit, phase1: &Phase1<C>) -> Result<Origin<C>> {
    let n = size_for::<C>(circuit.n_rows());
    if 2 * n > phase1.tau_1.len() {
        let needed = power_for::<C>(circuit.n_rows());
        return Err(Error::new("phase1-small", format!("power {}, the circuit needs {needed}", phase1.power)));
    }
    let domain = Domain::<C>::new(n)?;
    let transform = Transform::new(n, inverse(domain.root)?)?;
    let plain = vec![inverse(C::Fr::from(n as u64))?; n];
    let basis = transform.run(&phase1.tau_1[..n], &plain)?;
    let basis_2 = transform.run(&phase1.tau_2[..n], &plain)?;
    let alpha = transform.run(&phase1.alpha_1[..n], &plain)?;
    let beta = transform.run(&phase1.beta_1[..n], &plain)?;
    let vanishing = points(n, |i| phase1.tau_1[n + i].into_group() - phase1.tau_1[i])?;
    let z_inverse = inverse(domain.vanishing(domain.shift))?;
    let quotient = transform.run(&vanishing, &vec![plain[0] * z_inverse; n])?;
    let coset = transform.run(&vanishing, &geometric(plain[0] * z_inverse, inverse(domain.shift)?, n))?;

    let columns = Columns::new(circuit);
    let (wires, first_private) = (circuit.n_wires() as usize, circuit.first_private() as usize);
    let statement = |wire: usize| -> G1Projective<C> {
        sum(&columns.a[wire], &beta) + sum(&columns.b[wire], &alpha) + sum(&columns.c[wire], &basis)
    };
    let ic = points(first_private, statement)?;
    if let Some(signal) = ic.iter().position(AffineRepr::is_zero) {
        return Err(Error::new("circuit-unbound", format!("wire {signal} is public but occurs in no constraint")));
    }
    let k = points(wires, |wire| {
        let private = if wire < first_private { G1Projective::<C>::ZERO } else { statement(wire) };
        private - sum(&columns.c[wire], &quotient)
    })?;
    Ok(Origin {
        alpha_1: phase1.alpha_1[0],
        beta_1: phase1.beta_1[0],
        beta_2: phase1.beta_2,
        a: points(wires, |wire| sum(&columns.a[wire], &basis))?,
        b1: points(wires, |wire| sum(&columns.b[wire], &basis))?,
        b2: points(wires, |wire| sum(&columns.b[wire], &basis_2))?,
        moving: Moving { ic, k, h: coset },
    })
}

/// X_k = Σ x_j·ω^(jk) on points: decimation in time with radix 2 and 3.
struct Transform<F: PrimeField> {
    size: usize,
    root: F,
    /// From the innermost stage to the outermost.
    radices: Vec<usize>,
}

impl<F: PrimeField> Transform<F> {
    fn new(size: usize, root: F) -> Result<Self> {
        let (mut radices, mut rest) = (Vec::new(), size);
        for radix in [2, 3] {
            while rest.is_multiple_of(radix) {
                radices.push(radix);
                rest /= radix;
            }
        }
        if rest != 1 {
            return Err(Error::new("internal", format!("no transform of size {size}")));
        }
        Ok(Self { size, root, radices })
    }

    /// Where input `i` stands before the first stage.
    fn position(&self, mut i: usize) -> usize {
        let (mut position, mut size) = (0, self.size);
        for radix in self.radices.iter().rev() {
            size /= radix;
            position += (i % radix) * size;
            i /= radix;
        }
        position
    }

    /// The transform of scale[j]·x[j].
    fn run<P: SWCurveConfig<ScalarField = F>>(&self, x: &[Affine<P>], scale: &[F]) -> Result<Vec<Affine<P>>> {
        let scaled = halves(self.size, |range| Ok(range.map(|i| x[i] * scale[i]).collect::<Vec<Projective<P>>>()))?;
        let mut data = vec![Projective::<P>::ZERO; self.size];
        for (i, point) in scaled.into_iter().enumerate() {
            data[self.position(i)] = point;
        }
        let mut length = 1;
        for radix in &self.radices {
            data = self.stage(&data, *radix, length)?;
            length *= radix;
        }
        points(self.size, |i| data[i])
    }

    fn stage<P: SWCurveConfig<ScalarField = F>>(
        &self,
        data: &[Projective<P>],
        radix: usize,
        length: usize,
    ) -> Result<Vec<Projective<P>>> {
        let block = radix * length;
        let root = self.root.pow([(self.size / block) as u64]);
        let cube = self.root.pow([(self.size / 3) as u64]);
        let twiddles = geometric(F::ONE, root, length);
        let columns = halves(self.size / radix, |range| {
            let butterfly = |at: usize| {
                let (start, j) = (at / length * block, at % length);
                let point = |s: usize| data[start + j + s * length];
                let turned = |s: usize, by: F| if j == 0 { point(s) } else { point(s) * by };
                let (x, w) = (point(0), twiddles[j]);
                let y = turned(1, w);
                if radix == 2 {
                    return [x + y, x - y, Projective::ZERO];
                }
                let z = turned(2, w.square());
                // With c³ = 1: cy + c²z = c(y − z) − z and c²y + cz = −y − c(y − z).
                let difference = (y - z) * cube;
                [x + y + z, x + difference - z, x - y - difference]
            };
            Ok(range.map(butterfly).collect::<Vec<_>>())
        })?;
        let mut out = vec![Projective::ZERO; self.size];
        for (at, column) in columns.into_iter().enumerate() {
            let (start, j) = (at / length * block, at % length);
            for (s, point) in column.into_iter().take(radix).enumerate() {
                out[start + j + s * length] = point;
            }
        }
        Ok(out)
    }
}

/// δ or γ before anybody contributed.
pub fn unit<C: Curve>() -> (G1Affine<C>, G2Affine<C>) {
    (generator_1::<C>(), generator_2::<C>())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::curve::{Bls381, Bn254};

    fn lagrange_bases_are_transforms_of_powers<C: Curve>(sizes: &[usize]) {
        let tau = C::Fr::from(987_654_321u64);
        for n in sizes.iter().copied() {
            let domain = Domain::<C>::new(n).unwrap();
            let powers = geometric(C::Fr::from(1u64), tau, n);
            let powers = points(n, |i| generator_1::<C>() * powers[i]).unwrap();
            let transform = Transform::new(n, inverse(domain.root).unwrap()).unwrap();
            let found = transform.run(&powers, &vec![inverse(C::Fr::from(n as u64)).unwrap(); n]).unwrap();
            let basis = domain.lagrange(tau).unwrap();
            assert_eq!(found, points(n, |i| generator_1::<C>() * basis[i]).unwrap(), "size {n}");
        }
    }

    #[test]
    fn bases_of_every_kind_of_domain() {
        lagrange_bases_are_transforms_of_powers::<Bn254>(&[2, 3, 4, 6, 9, 12, 18, 36, 72, 96]);
        lagrange_bases_are_transforms_of_powers::<Bls381>(&[2, 3, 4, 6, 12, 48]);
    }

    #[test]
    fn a_phase_1_holds_what_the_circuit_needs() {
        // 576 rows fit 2^10 powers; 1,024 rows take one power more than their own size has.
        for (rows, power) in [(3, 2), (4, 3), (9, 4), (562, 10), (768, 10), (1024, 11), (3851, 13)] {
            assert_eq!(power_for::<Bn254>(rows), power, "{rows} rows");
        }
    }
}
