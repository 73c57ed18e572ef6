//! The two curves of the product, as everything the generic code needs to know about one.

use std::fmt::Debug;

use ark_ec::pairing::Pairing;
use ark_ec::scalar_mul::glv::GLVConfig;
use ark_ec::short_weierstrass::{Affine, Projective, SWCurveConfig};
use ark_ff::{BigInt, Field, PrimeField};

use crate::error::{Error, Result};
use crate::kernel::{Coordinate, GroupElement, Lazy, ScalarElement};

/// Flags in the first byte of an encoded point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PointFlags {
    /// The bits that are flags and not part of x.
    pub mask: u8,
    pub smaller_y: u8,
    pub larger_y: u8,
    pub infinity: u8,
    /// Infinity in the uncompressed form, whose other points have no flag set.
    pub infinity_uncompressed: u8,
}

/// A pairing-friendly curve whose scalars fit four words.
pub trait Curve: Debug + Clone + Copy + PartialEq + Eq + Send + Sync + 'static {
    /// In files.
    const ID: u8;
    /// In text.
    const NAME: &'static str;
    /// The largest power of three that divides r − 1: domains have 2^a·3^b points, b up to this.
    const THREES_MAX: u32;
    /// Bytes of a coordinate in the base field.
    const FQ_BYTES: usize;
    const FLAGS: PointFlags;

    type Fr: PrimeField<BigInt = BigInt<4>>;
    type Fq: PrimeField + Coordinate<Self::Base, 1>;
    type Fq2: Field<BasePrimeField = Self::Fq> + Coordinate<Self::Base, 2>;
    type G1: GLVConfig<BaseField = Self::Fq, ScalarField = Self::Fr>;
    type G2: SWCurveConfig<BaseField = Self::Fq2, ScalarField = Self::Fr>;
    type Pairing: Pairing<
        ScalarField = Self::Fr,
        BaseField = Self::Fq,
        G1 = G1Projective<Self>,
        G1Affine = G1Affine<Self>,
        G2 = G2Projective<Self>,
        G2Affine = G2Affine<Self>,
    >;
    /// The base field as the kernels compute in it.
    type Base: GroupElement<Field = Self::Fq>;
    /// The scalar field as the kernels compute in it.
    type Scalar: ScalarElement<Field = Self::Fr, Words = [u64; 4]>;
}

pub type G1Affine<C> = Affine<<C as Curve>::G1>;
pub type G2Affine<C> = Affine<<C as Curve>::G2>;
pub type G1Projective<C> = Projective<<C as Curve>::G1>;
pub type G2Projective<C> = Projective<<C as Curve>::G2>;

/// About 100 bits of security, short proofs: the default in the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bn254;

impl Curve for Bn254 {
    const ID: u8 = 1;
    const NAME: &'static str = "bn254";
    // r − 1 = 2^28·3^2·13·29·983·…
    const THREES_MAX: u32 = 2;
    const FQ_BYTES: usize = 32;
    const FLAGS: PointFlags = PointFlags {
        mask: 0b1100_0000,
        smaller_y: 0b1000_0000,
        larger_y: 0b1100_0000,
        infinity: 0b0100_0000,
        infinity_uncompressed: 0b0100_0000,
    };

    type Fr = ark_bn254::Fr;
    type Fq = ark_bn254::Fq;
    type Fq2 = ark_bn254::Fq2;
    type G1 = ark_bn254::g1::Config;
    type G2 = ark_bn254::g2::Config;
    type Pairing = ark_bn254::Bn254;
    type Base = Lazy<ark_bn254::FqConfig, 4>;
    type Scalar = Lazy<ark_bn254::FrConfig, 4>;
}

/// About 120 bits of security: for the archive, or where latency allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bls381;

impl Curve for Bls381 {
    const ID: u8 = 2;
    const NAME: &'static str = "bls12-381";
    // r − 1 = 2^32·3·11·19·10177·…
    const THREES_MAX: u32 = 1;
    const FQ_BYTES: usize = 48;
    // The form of Zcash's protocol specification, 5.4.9.2: compressed, infinity, larger y.
    const FLAGS: PointFlags = PointFlags {
        mask: 0b1110_0000,
        smaller_y: 0b1000_0000,
        larger_y: 0b1010_0000,
        infinity: 0b1100_0000,
        infinity_uncompressed: 0b0100_0000,
    };

    type Fr = ark_bls12_381::Fr;
    type Fq = ark_bls12_381::Fq;
    type Fq2 = ark_bls12_381::Fq2;
    type G1 = ark_bls12_381::g1::Config;
    type G2 = ark_bls12_381::g2::Config;
    type Pairing = ark_bls12_381::Bls12_381;
    type Base = Lazy<ark_bls12_381::FqConfig, 6>;
    type Scalar = Lazy<ark_bls12_381::FrConfig, 4>;
}

/// A curve known at run time only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CurveId {
    Bn254,
    Bls381,
}

impl CurveId {
    pub const ALL: [Self; 2] = [Self::Bn254, Self::Bls381];

    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|curve| curve.byte() == byte)
    }

    /// Error: `curve-unknown`.
    pub fn named(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|curve| curve.name() == name).ok_or_else(|| {
            Error::new("curve-unknown", format!("curve {name:?}, expected {} or {}", Bn254::NAME, Bls381::NAME))
        })
    }

    pub fn byte(self) -> u8 {
        match self {
            Self::Bn254 => Bn254::ID,
            Self::Bls381 => Bls381::ID,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Bn254 => Bn254::NAME,
            Self::Bls381 => Bls381::NAME,
        }
    }
}

/// Runs `$body` with `$c` as the curve type that `$id` names.
#[macro_export]
macro_rules! with_curve {
    ($id:expr, $c:ident => $body:expr) => {
        match $id {
            $crate::curve::CurveId::Bn254 => {
                type $c = $crate::curve::Bn254;
                $body
            }
            $crate::curve::CurveId::Bls381 => {
                type $c = $crate::curve::Bls381;
                $body
            }
        }
    };
}
