// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which intermediate tensors may share a buffer: those that are never needed at the same time.

/// An intermediate tensor: its size and the steps from its first write to its last use, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetime {
    pub bytes: u64,
    pub first: usize,
    pub last: usize,
}

impl Lifetime {
    fn overlaps(&self, other: &Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// Buffers and who uses them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// Bytes of each buffer.
    pub buffers: Vec<u64>,
    /// For each tensor, the index of its buffer.
    pub of: Vec<usize>,
}

/// Gives every tensor a buffer, the largest first, so that a buffer never has to grow (Pisarchyk and Lee, "Efficient
/// Memory Management for Deep Neural Net Inference", 2020: greedy by size). Tensors of one step never share a buffer,
/// as a dispatch must not read and write the same one.
pub fn assign(tensors: &[Lifetime]) -> Assignment {
    let mut order: Vec<usize> = (0..tensors.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(tensors[i].bytes), tensors[i].first));
    let mut users: Vec<Vec<usize>> = Vec::new();
    let mut of = vec![0; tensors.len()];
    for tensor in order {
        let free = |users: &Vec<usize>| users.iter().all(|&user| !tensors[user].overlaps(&tensors[tensor]));
        // Of the free buffers the smallest: they stand in descending order of size.
        let buffer = users.iter().rposition(free).unwrap_or_else(|| {
            users.push(Vec::new());
            users.len() - 1
        });
        users[buffer].push(tensor);
        of[tensor] = buffer;
    }
    let largest = |users: &Vec<usize>| users.iter().map(|&user| tensors[user].bytes).max().unwrap_or(0);
    Assignment { buffers: users.iter().map(largest).collect(), of }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tensor(bytes: u64, first: usize, last: usize) -> Lifetime {
        Lifetime { bytes, first, last }
    }

    #[test]
    fn a_chain_needs_two_buffers() {
        let chain: Vec<_> = (0..6).map(|i| tensor(100, i, i + 1)).collect();
        let assignment = assign(&chain);
        assert_eq!(assignment.buffers, [100, 100]);
        assert_eq!(assignment.of, [0, 1, 0, 1, 0, 1].map(|i| (i + assignment.of[0]) % 2));
    }

    #[test]
    fn what_is_kept_shares_with_nobody() {
        let kept = tensor(10, 0, usize::MAX);
        let assignment = assign(&[kept, tensor(50, 1, 2), tensor(20, 3, 4), kept]);
        assert_eq!(assignment.of[1], assignment.of[2]);
        assert_ne!(assignment.of[0], assignment.of[3]);
        assert_eq!(assignment.buffers.iter().sum::<u64>(), 70);
    }

    #[test]
    fn nothing_needs_nothing() {
        assert_eq!(assign(&[]), Assignment { buffers: vec![], of: vec![] });
    }

    proptest! {
        #[test]
        fn no_two_live_tensors_share(lives in prop::collection::vec((1u64..1000, 0usize..20, 0usize..6), 0..40)) {
            let tensors: Vec<_> = lives.iter().map(|&(bytes, first, more)| tensor(bytes, first, first + more)).collect();
            let Assignment { buffers, of } = assign(&tensors);
            for (i, a) in tensors.iter().enumerate() {
                prop_assert!(buffers[of[i]] >= a.bytes);
                for (j, b) in tensors.iter().enumerate().skip(i + 1) {
                    prop_assert!(of[i] != of[j] || !a.overlaps(b), "{a:?} and {b:?} share");
                }
            }
            // Never more than a buffer each, never less than what is alive at once.
            let total: u64 = buffers.iter().sum();
            let at = |step| tensors.iter().filter(|t| (t.first..=t.last).contains(&step)).map(|t| t.bytes).sum::<u64>();
            prop_assert!(total <= tensors.iter().map(|t| t.bytes).sum::<u64>());
            prop_assert!(total >= (0..26).map(at).max().unwrap_or(0));
        }
    }
}
