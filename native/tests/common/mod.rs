//! What the hostile tests share: a circuit of nine rows and a seeded source of small damage.
// Each test program uses a part of it.
#![allow(dead_code)]

/// One input x, one output ReLU(x) + `offset` for −16 ≤ x < 16: wires 0 one, 1 x, 2 y, 3 ctx, 4..8 bits, 8 product.
pub fn relu_file(curve: u8, offset: i64) -> Vec<u8> {
    let mut out = Vec::new();
    let lc = |out: &mut Vec<u8>, terms: &[(u32, i64)]| {
        out.extend((terms.len() as u16).to_be_bytes());
        for (wire, coefficient) in terms {
            out.extend(wire.to_be_bytes());
            out.extend(coefficient.to_be_bytes());
        }
    };
    let top = [(0, 16), (1, 1), (4, -1), (5, -2), (6, -4), (7, -8)];
    let low = [(4, 1), (5, 2), (6, 4), (7, 8)];
    out.extend(b"SITSR1C1");
    out.push(curve);
    for n in [1u32, 1, 5, 3, 9] {
        out.extend(n.to_be_bytes());
    }
    out.push(1);
    lc(&mut out, &[(0, 16), (1, 1)]);
    out.push(4);
    out.extend(4u32.to_be_bytes());
    out.push(2);
    lc(&mut out, &top);
    lc(&mut out, &low);
    out.push(4);
    out.extend(8u32.to_be_bytes());
    out.push(3);
    let value = [(0, offset), (8, 1)];
    lc(&mut out, &value[usize::from(offset == 0)..]);
    out.extend(0u32.to_be_bytes());
    let mut row = |a: &[(u32, i64)], b: &[(u32, i64)], c: &[(u32, i64)]| {
        for side in [a, b, c] {
            lc(&mut out, side);
        }
    };
    for bit in 4..8 {
        row(&[(bit, 1)], &[(0, 1), (bit, -1)], &[]);
    }
    row(&top, &[(1, -1), (4, 1), (5, 2), (6, 4), (7, 8)], &[]);
    row(&top, &low, &[(8, 16)]);
    let tie = [(0, offset), (2, -1), (8, 1)];
    row(&tie[usize::from(offset == 0)..], &[(0, 1)], &[]);
    row(&[(1, 1)], &[], &[]);
    row(&[(3, 1)], &[], &[]);
    out
}

/// SplitMix64: small, seeded, the same everywhere.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    /// Turns over one to four bits.
    pub fn flip_bits(&mut self, data: &mut [u8]) {
        for _ in 0..=self.below(3) {
            data[self.below(data.len())] ^= 1 << self.below(8);
        }
    }

    /// Sets, removes or inserts a few bytes; favours the header, where the counts are.
    pub fn mutate(&mut self, data: &[u8]) -> Vec<u8> {
        let mut out = data.to_vec();
        for _ in 0..=self.below(3) {
            let reach = if self.below(2) == 0 { out.len().min(64) } else { out.len() };
            let at = self.below(reach);
            match self.below(4) {
                0 | 1 if !out.is_empty() => out[at] ^= 1 << self.below(8),
                2 => {
                    let end = (at + self.below(40)).min(out.len());
                    out.drain(at.min(end)..end);
                }
                _ => {
                    let extra: Vec<u8> = (0..self.below(40)).map(|_| self.next() as u8).collect();
                    out.splice(at..at, extra);
                }
            }
        }
        out
    }
}
