//! Files read and written piece by piece, hashed on the way; sizes are checked before memory is taken.

use std::io::{ErrorKind, Read, Write};

use ark_ec::short_weierstrass::{Affine, SWCurveConfig};
use ark_ec::AffineRepr;
use sha2::{Digest, Sha256};

use crate::ceremony::groups::halves;
use crate::ceremony::points::Codec;
use crate::curve::Curve;
use crate::error::{Error, Result};

/// Points held as bytes at a time. Few in tests, so that small files have pieces too.
const CHUNK_POINTS: usize = if cfg!(test) { 6 } else { 1 << 14 };

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Compressed,
    Montgomery,
}

impl Form {
    pub fn bytes<C: Curve, P: SWCurveConfig>(self, codec: &Codec<C, P>) -> usize {
        match self {
            Self::Compressed => codec.compressed_bytes(),
            Self::Montgomery => codec.montgomery_bytes(),
        }
    }
}

/// `length` bytes of a file. Errors carry the format's `code`.
pub struct Source<R> {
    inner: R,
    left: u64,
    hash: Sha256,
    code: &'static str,
}

/// Without the file's name, which whoever opened the file adds.
pub fn io_error(error: &std::io::Error) -> Error {
    let code = match error.kind() {
        ErrorKind::NotFound => "file-missing",
        ErrorKind::IsADirectory | ErrorKind::NotADirectory => "file-kind",
        ErrorKind::AlreadyExists => "file-exists",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "disk-full",
        _ => "file",
    };
    Error::new(code, error.to_string())
}

/// The codes of [`io_error`].
pub const FILE_CODES: [&str; 5] = ["file", "file-missing", "file-kind", "file-exists", "disk-full"];

impl<R: Read> Source<R> {
    pub fn new(inner: R, length: u64, code: &'static str) -> Self {
        Self { inner, left: length, hash: Sha256::new(), code }
    }

    pub fn left(&self) -> u64 {
        self.left
    }

    pub fn fail<T>(&self, detail: impl Into<String>) -> Result<T> {
        Err(Error::new(self.code, detail.into()))
    }

    pub fn take(&mut self, n: usize) -> Result<Vec<u8>> {
        if n as u64 > self.left {
            return self.fail(format!("truncated: need {n} bytes, {} left", self.left));
        }
        let mut out = vec![0u8; n];
        self.inner.read_exact(&mut out).map_err(|e| io_error(&e))?;
        self.left -= n as u64;
        self.hash.update(&out);
        Ok(out)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0u8; N];
        out.copy_from_slice(&self.take(N)?);
        Ok(out)
    }

    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    pub fn u32_le(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn u64_le(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Bytes behind a one-byte length.
    pub fn short_bytes(&mut self) -> Result<Vec<u8>> {
        let length = self.u8()?;
        self.take(usize::from(length))
    }

    pub fn text(&mut self) -> Result<String> {
        let bytes = self.short_bytes()?;
        String::from_utf8(bytes).or_else(|_| self.fail("a name that is not UTF-8"))
    }

    /// `n` points; the space for them is known to be there before it is taken.
    pub fn points<C: Curve, P: SWCurveConfig>(
        &mut self,
        codec: &Codec<C, P>,
        form: Form,
        n: usize,
        what: &str,
    ) -> Result<Vec<Affine<P>>> {
        let size = form.bytes(codec);
        let needed = (n as u64).checked_mul(size as u64);
        if needed.is_none_or(|needed| needed > self.left) {
            return self.fail(format!("truncated: {n} points of {what} do not fit {} bytes", self.left));
        }
        let mut out = Vec::with_capacity(n);
        while out.len() < n {
            let count = CHUNK_POINTS.min(n - out.len());
            let (start, code) = (out.len(), self.code);
            let bytes = self.take(count * size)?;
            out.extend(halves(count, |range| {
                let read = |i: usize| {
                    let bytes = &bytes[i * size..(i + 1) * size];
                    let point = match form {
                        Form::Compressed => codec.read_compressed(bytes),
                        Form::Montgomery => codec.read_montgomery(bytes),
                    };
                    point.map_err(|fault| Error::new(code, format!("{what}[{}]: {fault}", start + i)))
                };
                range.map(read).collect()
            })?);
        }
        Ok(out)
    }

    /// The same where no point may be at infinity.
    pub fn finite<C: Curve, P: SWCurveConfig>(
        &mut self,
        codec: &Codec<C, P>,
        form: Form,
        n: usize,
        what: &str,
    ) -> Result<Vec<Affine<P>>> {
        let points = self.points(codec, form, n, what)?;
        match points.iter().position(AffineRepr::is_zero) {
            Some(at) => self.fail(format!("{what}[{at}] is the point at infinity")),
            None => Ok(points),
        }
    }

    pub fn point<C: Curve, P: SWCurveConfig>(
        &mut self,
        codec: &Codec<C, P>,
        form: Form,
        what: &str,
    ) -> Result<Affine<P>> {
        Ok(self.finite(codec, form, 1, what)?[0])
    }

    /// SHA-256 of everything read, if that was everything.
    pub fn finish(self) -> Result<[u8; 32]> {
        if self.left != 0 {
            return self.fail(format!("{} trailing bytes", self.left));
        }
        Ok(self.hash.finalize().into())
    }
}

/// A file being written.
pub struct Sink<W> {
    inner: W,
    hash: Sha256,
}

impl<W: Write> Sink<W> {
    pub fn new(inner: W) -> Self {
        Self { inner, hash: Sha256::new() }
    }

    pub fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.hash.update(bytes);
        self.inner.write_all(bytes).map_err(|e| io_error(&e))
    }

    /// At most 255 bytes behind their length.
    pub fn short_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        let length = u8::try_from(bytes.len()).map_err(|_| Error::new("internal", "a field of more than 255 bytes"))?;
        self.bytes(&[length])?;
        self.bytes(bytes)
    }

    pub fn points<C: Curve, P: SWCurveConfig>(
        &mut self,
        codec: &Codec<C, P>,
        form: Form,
        points: &[Affine<P>],
    ) -> Result<()> {
        for chunk in points.chunks(CHUNK_POINTS) {
            let mut out = Vec::with_capacity(chunk.len() * form.bytes(codec));
            for point in chunk {
                match form {
                    Form::Compressed => codec.write_compressed(point, &mut out),
                    Form::Montgomery => codec.write_montgomery(point, &mut out),
                }
            }
            self.bytes(&out)?;
        }
        Ok(())
    }

    /// Flushes; SHA-256 of everything written.
    pub fn finish(mut self) -> Result<[u8; 32]> {
        self.inner.flush().map_err(|e| io_error(&e))?;
        Ok(self.hash.finalize().into())
    }
}
