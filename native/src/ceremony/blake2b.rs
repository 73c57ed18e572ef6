//! BLAKE2b-512 (RFC 7693) whose state can be written down and taken up again: the `.ptau` format stores the hash of a
//! response half-way, before the contributor's public key goes in, and no library gives that out.

use crate::error::{Error, Result};

pub const DIGEST_BYTES: usize = 64;
/// Block buffer, chain value, bytes compressed, bytes buffered, finalisation flag: as snarkjs stores it.
pub const STATE_BYTES: usize = BLOCK + 64 + 3 * 8;

const BLOCK: usize = 128;
const ROUNDS: usize = 12;
const IV: [u64; 8] = [
    0x6a09_e667_f3bc_c908,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];
/// Digest of 64 bytes, no key, fan-out and depth 1.
const PARAMETERS: u64 = 0x0101_0040;
const SIGMA: [[usize; 16]; 10] = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
    [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
    [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
    [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
    [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
    [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
    [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
    [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];

#[derive(Clone)]
pub struct Blake2b {
    block: [u8; BLOCK],
    chain: [u64; 8],
    compressed: u64,
    buffered: usize,
}

impl Default for Blake2b {
    fn default() -> Self {
        let mut chain = IV;
        chain[0] ^= PARAMETERS;
        Self { block: [0; BLOCK], chain, compressed: 0, buffered: 0 }
    }
}

impl Blake2b {
    pub fn update(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            // The last block waits for the end, also when it is full.
            if self.buffered == BLOCK {
                self.compressed = self.compressed.wrapping_add(BLOCK as u64);
                self.compress(false);
                self.buffered = 0;
            }
            let n = data.len().min(BLOCK - self.buffered);
            self.block[self.buffered..self.buffered + n].copy_from_slice(&data[..n]);
            self.buffered += n;
            data = &data[n..];
        }
    }

    pub fn finish(mut self) -> [u8; DIGEST_BYTES] {
        self.compressed = self.compressed.wrapping_add(self.buffered as u64);
        self.block[self.buffered..].fill(0);
        self.compress(true);
        let mut out = [0u8; DIGEST_BYTES];
        for (bytes, word) in out.chunks_exact_mut(8).zip(self.chain) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    pub fn digest(parts: &[&[u8]]) -> [u8; DIGEST_BYTES] {
        let mut hash = Self::default();
        parts.iter().for_each(|part| hash.update(part));
        hash.finish()
    }

    pub fn save(&self) -> [u8; STATE_BYTES] {
        let mut out = [0u8; STATE_BYTES];
        out[..BLOCK].copy_from_slice(&self.block);
        let words = self.chain.iter().copied().chain([self.compressed, self.buffered as u64, 0]);
        for (bytes, word) in out[BLOCK..].chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// Error `phase1-format` for a state that no sequence of updates leaves.
    pub fn restore(data: &[u8; STATE_BYTES]) -> Result<Self> {
        let mut words = [0u64; 11];
        for (word, bytes) in words.iter_mut().zip(data[BLOCK..].chunks_exact(8)) {
            let mut copy = [0u8; 8];
            copy.copy_from_slice(bytes);
            *word = u64::from_le_bytes(copy);
        }
        let [.., compressed, buffered, last] = words;
        if buffered > BLOCK as u64 || last != 0 || !compressed.is_multiple_of(BLOCK as u64) {
            return Err(Error::new("phase1-format", "a stored hash state that no hashing leaves"));
        }
        let mut out = Self { block: [0; BLOCK], chain: [0; 8], compressed, buffered: buffered as usize };
        out.block.copy_from_slice(&data[..BLOCK]);
        out.chain.copy_from_slice(&words[..8]);
        Ok(out)
    }

    fn compress(&mut self, last: bool) {
        let mut m = [0u64; 16];
        for (word, bytes) in m.iter_mut().zip(self.block.chunks_exact(8)) {
            let mut copy = [0u8; 8];
            copy.copy_from_slice(bytes);
            *word = u64::from_le_bytes(copy);
        }
        let mut v = [0u64; 16];
        v[..8].copy_from_slice(&self.chain);
        v[8..].copy_from_slice(&IV);
        v[12] ^= self.compressed;
        if last {
            v[14] = !v[14];
        }
        for round in 0..ROUNDS {
            let s = &SIGMA[round % SIGMA.len()];
            for i in 0..4 {
                mix(&mut v, [i, 4 + i, 8 + i, 12 + i], m[s[2 * i]], m[s[2 * i + 1]]);
            }
            for i in 0..4 {
                let column = [i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4];
                mix(&mut v, column, m[s[8 + 2 * i]], m[s[9 + 2 * i]]);
            }
        }
        for i in 0..8 {
            self.chain[i] ^= v[i] ^ v[i + 8];
        }
    }
}

fn mix(v: &mut [u64; 16], [a, b, c, d]: [usize; 4], x: u64, y: u64) {
    v[a] = v[a].wrapping_add(v[b]).wrapping_add(x);
    v[d] = (v[d] ^ v[a]).rotate_right(32);
    v[c] = v[c].wrapping_add(v[d]);
    v[b] = (v[b] ^ v[c]).rotate_right(24);
    v[a] = v[a].wrapping_add(v[b]).wrapping_add(y);
    v[d] = (v[d] ^ v[a]).rotate_right(16);
    v[c] = v[c].wrapping_add(v[d]);
    v[b] = (v[b] ^ v[c]).rotate_right(63);
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    /// RFC 7693, appendix A, and the digest of nothing.
    #[test]
    fn known_answers() {
        assert_eq!(
            hex(&Blake2b::digest(&[b"abc"])),
            "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d1\
             7d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923"
        );
        assert!(
            hex(&Blake2b::digest(&[])).starts_with("786a02f742015903c6c6fd852552d272912f4740e15847618a86e217f71f5419")
        );
    }

    #[test]
    fn cutting_and_storing_change_nothing() {
        let data: Vec<u8> = (0..700u32).map(|i| (i * 7) as u8).collect();
        let whole = Blake2b::digest(&[&data]);
        for cut in [0, 1, 127, 128, 129, 255, 256, 257, 699, 700] {
            let mut first = Blake2b::default();
            first.update(&data[..cut]);
            let mut second = Blake2b::restore(&first.save()).unwrap();
            second.update(&data[cut..]);
            assert_eq!(second.finish(), whole, "cut at {cut}");
        }
    }

    #[test]
    fn impossible_states_are_refused() {
        let state = Blake2b::default().save();
        for (at, value) in [(BLOCK + 64, 1), (BLOCK + 72, 129), (BLOCK + 80, 1)] {
            let mut bad = state;
            bad[at] = value;
            assert!(Blake2b::restore(&bad).is_err(), "byte {at}");
        }
    }
}
