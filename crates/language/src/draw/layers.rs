//! Which layer each node stands in.
//!
//! Links that close a circle are turned round for the layout only, so that every link goes down.
//! Neither search uses the call stack: a machine may be one long chain.

use super::graph::Link;

/// Which links close a circle, found depth first from the start and then in document order.
pub(super) fn backward(nodes: usize, links: &[Link]) -> Vec<bool> {
    let leaving = leaving(nodes, links);
    let mut back = vec![false; links.len()];
    let mut visit = vec![Visit::Not; nodes];
    for root in 0..nodes {
        if visit[root] == Visit::Not {
            search(root, links, &leaving, &mut visit, &mut back);
        }
    }
    back
}

/// The layer of each node: below all that lead to it, and no further down than its links gain.
pub(super) fn ranks(nodes: usize, links: &[(usize, usize)]) -> Vec<usize> {
    let mut down = vec![Vec::new(); nodes];
    let mut up = vec![Vec::new(); nodes];
    for &(from, to) in links {
        down[from].push(to);
        up[to].push(from);
    }
    let sequence = sorted(&down, &up);
    let mut rank = vec![0; nodes];
    for &node in &sequence {
        for &next in &down[node] {
            rank[next] = rank[next].max(rank[node] + 1);
        }
    }
    tighten(&sequence, &down, &up, &mut rank);
    rank
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Visit {
    Not,
    Open,
    Done,
}

fn leaving(nodes: usize, links: &[Link]) -> Vec<Vec<usize>> {
    let mut leaving = vec![Vec::new(); nodes];
    for (at, link) in links.iter().enumerate() {
        leaving[link.from].push(at);
    }
    leaving
}

fn search(root: usize, links: &[Link], leaving: &[Vec<usize>], visit: &mut [Visit], back: &mut [bool]) {
    let mut stack = vec![(root, 0)];
    visit[root] = Visit::Open;
    while let Some((node, step)) = stack.pop() {
        let Some(&link) = leaving[node].get(step) else {
            visit[node] = Visit::Done;
            continue;
        };
        stack.push((node, step + 1));
        let to = links[link].to;
        match visit[to] {
            Visit::Not => {
                visit[to] = Visit::Open;
                stack.push((to, 0));
            }
            Visit::Open => back[link] = true,
            Visit::Done => {}
        }
    }
}

/// The nodes with every link going forward.
fn sorted(down: &[Vec<usize>], up: &[Vec<usize>]) -> Vec<usize> {
    let mut open: Vec<usize> = up.iter().map(Vec::len).collect();
    let mut sequence: Vec<usize> = (0..up.len()).filter(|&node| open[node] == 0).collect();
    let mut at = 0;
    while let Some(&node) = sequence.get(at) {
        at += 1;
        for &next in &down[node] {
            open[next] -= 1;
            if open[next] == 0 {
                sequence.push(next);
            }
        }
    }
    sequence
}

/// Moves nodes with more links down than up towards what they lead to: the links get shorter.
fn tighten(sequence: &[usize], down: &[Vec<usize>], up: &[Vec<usize>], rank: &mut [usize]) {
    for &node in sequence.iter().rev() {
        let below = down[node].iter().map(|&next| rank[next]).min();
        if let Some(below) = below
            && down[node].len() > up[node].len()
        {
            rank[node] = below - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{backward, ranks};
    use crate::draw::graph::Link;

    fn links(pairs: &[(usize, usize)]) -> Vec<Link> {
        let link = |&(from, to): &(usize, usize)| Link { from, to, label: String::new() };
        pairs.iter().map(link).collect()
    }

    #[test]
    fn a_circle_is_opened_once() {
        let back = backward(3, &links(&[(0, 1), (1, 2), (2, 0)]));
        assert_eq!(back, [false, false, true]);
    }

    #[test]
    fn links_go_down() {
        let pairs = [(0, 1), (1, 2), (0, 2), (3, 2)];
        assert_eq!(ranks(4, &pairs), [0, 1, 2, 1]);
    }

    #[test]
    fn a_long_chain_does_not_overflow() {
        let pairs: Vec<(usize, usize)> = (0..100_000).map(|at| (at, at + 1)).collect();
        assert_eq!(ranks(100_001, &pairs)[100_000], 100_000);
        assert!(!backward(100_001, &links(&pairs)).contains(&true));
    }
}
