//! Bounded big-endian reader: every read checks what is left before it touches the bytes.

use crate::error::{Error, Result};

pub struct Reader<'a> {
    data: &'a [u8],
    at: usize,
    code: &'static str,
}

impl<'a> Reader<'a> {
    /// `code` names the format in every error this reader raises.
    pub fn new(data: &'a [u8], code: &'static str) -> Self {
        Self { data, at: 0, code }
    }

    pub fn left(&self) -> usize {
        self.data.len() - self.at
    }

    pub fn fail<T>(&self, detail: impl Into<String>) -> Result<T> {
        Err(Error::new(self.code, format!("{} (at byte {})", detail.into(), self.at)))
    }

    pub fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        if n > self.left() {
            return self.fail(format!("truncated: need {n} bytes, {} left", self.left()));
        }
        let out = &self.data[self.at..self.at + n];
        self.at += n;
        Ok(out)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0u8; N];
        out.copy_from_slice(self.take(N)?);
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

    pub fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    pub fn magic(&mut self, expected: &[u8; 8]) -> Result<()> {
        if self.take(8)? != expected {
            return self.fail(format!("wrong magic, expected {:?}", String::from_utf8_lossy(expected)));
        }
        Ok(())
    }

    pub fn finish(self) -> Result<()> {
        if self.left() != 0 {
            return self.fail(format!("{} trailing bytes", self.left()));
        }
        Ok(())
    }
}
