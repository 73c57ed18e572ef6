//! Evaluation domains of size 2^a·3^b and the transform to a coset.
//!
//! r − 1 = 2^28·3^2·13·29·983·… for BN254, so 576 rows need a domain of 576, not 1024, while 27 and 5 divide no
//! domain's size; BLS12-381 has r − 1 = 2^32·3·11·19·… and allows b ≤ 1 (768). A factor 13 would allow 624, 832 and 936, for a radix-13 stage. The transform is a Stockham
//! mixed-radix FFT (radix 3 and 4, one radix 2 where the power of two is odd): it sorts itself, so there is no
//! bit reversal, and it works in two buffers the caller keeps.

use ark_ff::{AdditiveGroup, FftField, Field, PrimeField};

use crate::curve::Curve;
use crate::error::{Error, Result};
use crate::field::{inverse, pow};
use crate::kernel::{Element, Multiply};

struct Stage<S> {
    radix: usize,
    /// For each k in 0..m: ω^k, …, ω^{(radix−1)k} of this stage's root.
    twiddles: Vec<S>,
}

struct Transform<S> {
    stages: Vec<Stage<S>>,
    /// Primitive cube and fourth root in this direction.
    cube: S,
    fourth: S,
}

pub struct Domain<C: Curve> {
    pub size: usize,
    pub root: C::Fr,
    /// Offset of the coset: a generator of the multiplicative group, so in no proper subgroup.
    pub shift: C::Fr,
    inverse: Transform<C::Scalar>,
    forward: Transform<C::Scalar>,
    /// shift^i / size, applied between the two transforms.
    scale: Vec<C::Scalar>,
}

/// Smallest 2^a·3^b, b up to the curve's limit, that is at least `rows` (and at least 2).
pub fn size_for<C: Curve>(rows: usize) -> usize {
    let rows = rows.max(2);
    (0..=C::THREES_MAX)
        .map(|b| {
            let threes = 3usize.pow(b);
            threes * rows.div_ceil(threes).next_power_of_two()
        })
        .min()
        .unwrap_or(2)
}

pub fn radices(mut size: usize) -> Vec<usize> {
    let mut out = Vec::new();
    for radix in [3, 4, 2] {
        while size.is_multiple_of(radix) {
            out.push(radix);
            size /= radix;
        }
    }
    out
}

impl<S: Element> Transform<S> {
    fn new(size: usize, root: S::Field) -> Self {
        let mut stages = Vec::new();
        let (mut length, mut stage_root) = (size, root);
        for radix in radices(size) {
            let m = length / radix;
            let mut twiddles = Vec::with_capacity(m * (radix - 1));
            let mut w = S::Field::ONE;
            for _ in 0..m {
                let mut power = w;
                for _ in 1..radix {
                    twiddles.push(S::new(power));
                    power *= w;
                }
                w *= stage_root;
            }
            stages.push(Stage { radix, twiddles });
            stage_root = pow(stage_root, radix as u64);
            length = m;
        }
        Self { stages, cube: S::new(pow(root, size as u64 / 3)), fourth: S::new(pow(root, size as u64 / 4)) }
    }

    /// Replaces `data` by its unscaled transform X_k = Σ x_j ω^{jk}, in natural order.
    fn run<K: Multiply>(&self, kernel: K, data: &mut Vec<S>, scratch: &mut Vec<S>) {
        let mut stride = 1;
        for stage in &self.stages {
            match stage.radix {
                2 => stage_2(kernel, data, scratch, stride, &stage.twiddles),
                3 => stage_3(kernel, data, scratch, stride, &stage.twiddles, self.cube),
                _ => stage_4(kernel, data, scratch, stride, &stage.twiddles, self.fourth),
            }
            std::mem::swap(data, scratch);
            stride *= stage.radix;
        }
    }
}

fn stage_2<S: Element, K: Multiply>(kernel: K, x: &[S], y: &mut [S], stride: usize, twiddles: &[S]) {
    let half = x.len() / 2;
    for (k, w) in twiddles.iter().enumerate() {
        for q in 0..stride {
            let (a, b) = (x[q + stride * k], x[q + stride * k + half]);
            y[q + stride * 2 * k] = a + b;
            y[q + stride * (2 * k + 1)] = (a - b).times(*w, kernel);
        }
    }
}

fn stage_3<S: Element, K: Multiply>(kernel: K, x: &[S], y: &mut [S], stride: usize, twiddles: &[S], cube: S) {
    let third = x.len() / 3;
    for (k, w) in twiddles.chunks_exact(2).enumerate() {
        for q in 0..stride {
            let at = q + stride * k;
            let (a, b, c) = (x[at], x[at + third], x[at + 2 * third]);
            // 1 + ω + ω² = 0 leaves one multiplication.
            let turned = (b - c).times(cube, kernel);
            let to = q + stride * 3 * k;
            y[to] = a + b + c;
            [y[to + stride], y[to + 2 * stride]] =
                S::times_each([a - c + turned, a - b - turned], [w[0], w[1]], kernel);
        }
    }
}

fn stage_4<S: Element, K: Multiply>(kernel: K, x: &[S], y: &mut [S], stride: usize, twiddles: &[S], fourth: S) {
    let quarter = x.len() / 4;
    for (k, w) in twiddles.chunks_exact(3).enumerate() {
        for q in 0..stride {
            let at = q + stride * k;
            let (a, b, c, d) = (x[at], x[at + quarter], x[at + 2 * quarter], x[at + 3 * quarter]);
            let (sum_ac, diff_ac, sum_bd) = (a + c, a - c, b + d);
            let turned = (b - d).times(fourth, kernel);
            let to = q + stride * 4 * k;
            y[to] = sum_ac + sum_bd;
            let turned = [diff_ac + turned, sum_ac - sum_bd, diff_ac - turned];
            [y[to + stride], y[to + 2 * stride], y[to + 3 * stride]] =
                S::times_each(turned, [w[0], w[1], w[2]], kernel);
        }
    }
}

impl<C: Curve> Domain<C> {
    pub fn new(size: usize) -> Result<Self> {
        let size_fr = C::Fr::from(size as u64);
        let (mut rest, mut threes) = (size, 0);
        while rest.is_multiple_of(3) && rest > 0 {
            rest /= 3;
            threes += 1;
        }
        if !rest.is_power_of_two() || threes > C::THREES_MAX || rest.trailing_zeros() > C::Fr::TWO_ADICITY || size < 2 {
            return Err(Error::new("internal", format!("no domain of size {size}")));
        }
        // (r − 1)/size as an integer: exact because size divides r − 1.
        let exponent = (-C::Fr::ONE * inverse(size_fr)?).into_bigint();
        let root = C::Fr::GENERATOR.pow(exponent);
        let shift = C::Fr::GENERATOR;
        let size_inverse = inverse(size_fr)?;
        let scale =
            std::iter::successors(Some(size_inverse), |s| Some(*s * shift)).map(C::Scalar::new).take(size).collect();
        Ok(Self {
            size,
            root,
            shift,
            inverse: Transform::new(size, inverse(root)?),
            forward: Transform::new(size, root),
            scale,
        })
    }

    /// Values on the domain → values of the same polynomial on the coset shift·⟨ω⟩.
    pub fn to_coset<K: Multiply>(&self, kernel: K, values: &mut Vec<C::Scalar>, scratch: &mut Vec<C::Scalar>) {
        self.inverse.run(kernel, values, scratch);
        for (value, scale) in values.iter_mut().zip(&self.scale) {
            *value = value.times(*scale, kernel);
        }
        self.forward.run(kernel, values, scratch);
    }

    /// Z(x) = x^size − 1.
    pub fn vanishing(&self, x: C::Fr) -> C::Fr {
        pow(x, self.size as u64) - C::Fr::ONE
    }

    /// All Lagrange basis polynomials at `x`, which must not be in the domain:
    /// L_j(x) = ω^j·(x^n − 1) / (n·(x − ω^j)).
    pub fn lagrange(&self, x: C::Fr) -> Result<Vec<C::Fr>> {
        let factor = self.vanishing(x) * inverse(C::Fr::from(self.size as u64))?;
        let mut power = C::Fr::ONE;
        let (mut numerators, mut denominators) = (Vec::with_capacity(self.size), Vec::with_capacity(self.size));
        for _ in 0..self.size {
            numerators.push(power * factor);
            denominators.push(x - power);
            power *= self.root;
        }
        if denominators.contains(&C::Fr::ZERO) {
            return Err(Error::new("internal", "evaluation point lies in the domain"));
        }
        ark_ff::batch_inversion(&mut denominators);
        for (numerator, inverse) in numerators.iter_mut().zip(&denominators) {
            *numerator *= inverse;
        }
        Ok(numerators)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::curve::{Bls381, Bn254};
    use crate::kernel::Portable;

    #[test]
    fn sizes_are_the_smallest_smooth_ones() {
        for (rows, bn254, bls381) in [
            (1, 2, 2),
            (2, 2, 2),
            (3, 3, 3),
            (5, 6, 6),
            (7, 8, 8),
            (9, 9, 12),
            (10, 12, 12),
            (562, 576, 768),
            (577, 768, 768),
            (880, 1024, 1024),
        ] {
            assert_eq!(size_for::<Bn254>(rows), bn254, "{rows} rows");
            assert_eq!(size_for::<Bls381>(rows), bls381, "{rows} rows");
        }
    }

    fn check_interpolation<C: Curve>(sizes: &[usize]) {
        for size in sizes.iter().copied() {
            let domain = Domain::<C>::new(size).unwrap();
            let values: Vec<C::Fr> = (0..size as u64).map(|i| pow(C::Fr::from(i + 3), 5)).collect();
            let mut moved: Vec<C::Scalar> = values.iter().copied().map(C::Scalar::new).collect();
            domain.to_coset(Portable, &mut moved, &mut vec![C::Scalar::ZERO; size]);
            for j in [0, 1, size / 2, size - 1] {
                let x = domain.shift * pow(domain.root, j as u64);
                let basis = domain.lagrange(x).unwrap();
                let expected: C::Fr = basis.iter().zip(&values).map(|(l, v)| *l * v).sum();
                assert_eq!(moved[j].reduce(), expected, "{} size {size}, point {j}", C::NAME);
            }
        }
    }

    #[test]
    fn coset_values_match_lagrange_interpolation() {
        check_interpolation::<Bn254>(&[2, 3, 4, 6, 8, 9, 12, 18, 24, 36, 48, 72, 576]);
        check_interpolation::<Bls381>(&[2, 3, 4, 6, 8, 12, 24, 48, 96, 768]);
    }

    #[test]
    fn refuses_sizes_without_a_subgroup() {
        for size in [0, 1, 5, 27, 7 * 8] {
            assert!(Domain::<Bn254>::new(size).is_err(), "{size}");
            assert!(Domain::<Bls381>::new(size).is_err(), "{size}");
        }
        assert!(Domain::<Bls381>::new(9).is_err());
    }
}
