//! The lines of a layout: where they touch their boxes, and the curves between.
//!
//! A line is straight inside layers and curves only between them.

use std::fmt::Write as _;

use super::layout::{Chain, Kind, Layout, PORTS, SHOULDER};

/// The length of an arrow's head.
pub(super) const HEAD: f64 = 7.0;

/// Where each line leaves its upper box and where it reaches its lower one, from left to right.
pub(super) struct Ports {
    top: Vec<f64>,
    bottom: Vec<f64>,
}

impl Ports {
    /// Spreads the lines of each box along its sides, each as near to where it goes as it can be.
    pub(super) fn of(layout: &Layout) -> Self {
        let count = layout.spots.len();
        let (mut below, mut above) = (vec![Vec::new(); count], vec![Vec::new(); count]);
        for (at, chain) in layout.chains.iter().enumerate() {
            if let [first, second, ..] = chain.spots[..] {
                below[first].push((layout.spots[second].x, at));
            }
            if let [.., before, last] = chain.spots[..] {
                above[last].push((layout.spots[before].x, at));
            }
        }
        let mut ports = Self { top: vec![0.0; layout.chains.len()], bottom: vec![0.0; layout.chains.len()] };
        for spot in 0..count {
            spread(layout, spot, &mut below[spot], &mut ports.top);
            spread(layout, spot, &mut above[spot], &mut ports.bottom);
        }
        ports
    }

    /// The curve of a line and the head of its arrow, as paths.
    pub(super) fn paths(&self, layout: &Layout, at: usize) -> (String, String) {
        let chain = &layout.chains[at];
        let points = self.points(layout, at, chain);
        (curve(&points, chain), head(&points, chain.back))
    }

    /// The points of a line, from top to bottom. Every second stretch is straight.
    fn points(&self, layout: &Layout, at: usize, chain: &Chain) -> Vec<(f64, f64)> {
        let [first, middle @ .., last] = &chain.spots[..] else {
            return Vec::new();
        };
        let (from, to) = (&layout.spots[*first], &layout.spots[*last]);
        let mut points = vec![(self.top[at], edge(from, 1.0)), (self.top[at], layout.band(*first).1)];
        for &spot in middle {
            let (top, bottom) = layout.band(spot);
            points.push((layout.spots[spot].x, top));
            points.push((layout.spots[spot].x, bottom));
        }
        points.push((self.bottom[at], layout.band(*last).0));
        points.push((self.bottom[at], edge(to, -1.0)));
        points
    }
}

/// The lower or upper edge of the box at a spot, which may be lower than its layer.
fn edge(spot: &super::layout::Spot, side: f64) -> f64 {
    let height = match spot.kind {
        Kind::Node(_) => super::layout::BOX,
        Kind::Dot | Kind::Bend | Kind::Label(_) => spot.height,
    };
    spot.y + side * height / 2.0
}

fn spread(layout: &Layout, spot: usize, lines: &mut [(f64, usize)], ports: &mut [f64]) {
    let spot = &layout.spots[spot];
    lines.sort_by(|a, b| a.0.total_cmp(&b.0));
    let reach = f64::max(spot.width / 2.0 - SHOULDER, 0.0);
    let (left, right) = (spot.x - reach, spot.x + reach);
    let gaps = lines.len().saturating_sub(1) as f64;
    let gap = if gaps > 0.0 { PORTS.min(2.0 * reach / gaps) } else { 0.0 };
    let wished: Vec<f64> = lines.iter().map(|(x, _)| x.clamp(left, right)).collect();
    for (place, x) in apart(&wished, gap).into_iter().enumerate() {
        let most = right - gap * (gaps - place as f64);
        let least = left + gap * place as f64;
        ports[lines[place].1] = x.min(most).max(least);
    }
}

/// The places nearest to the wished ones, in the least squares sense, that keep a distance:
/// neighbours that are too close are pooled and share their mean.
fn apart(wished: &[f64], gap: f64) -> Vec<f64> {
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for (place, x) in wished.iter().enumerate() {
        let mut pool = (x - gap * place as f64, 1);
        while let Some(&(mean, size)) = pools.last() {
            if mean <= pool.0 {
                break;
            }
            pools.pop();
            let sum = mean * size as f64 + pool.0 * pool.1 as f64;
            pool = (sum / (size + pool.1) as f64, size + pool.1);
        }
        pools.push(pool);
    }
    let places = pools.iter().flat_map(|&(mean, size)| (0..size).map(move |_| mean));
    places.enumerate().map(|(place, x)| x + gap * place as f64).collect()
}

/// The curve through the points, kept short of the arrow's tip.
fn curve(points: &[(f64, f64)], chain: &Chain) -> String {
    let mut points = points.to_vec();
    let tip = if chain.back { points.first_mut() } else { points.last_mut() };
    if let Some(tip) = tip {
        tip.1 += if chain.back { HEAD - 1.0 } else { 1.0 - HEAD };
    }
    let mut path = String::new();
    let Some(&(x, y)) = points.first() else {
        return path;
    };
    let _ = write!(path, "M{x:.1} {y:.1}");
    // Straight stretches are only written when a curve follows, so long lines stay short texts.
    let (mut x, mut y) = (x, y);
    for pair in points.windows(2) {
        let ((from_x, from_y), (to_x, to_y)) = (pair[0], pair[1]);
        if (from_x - to_x).abs() < 0.4 {
            continue;
        }
        if (from_y - y).abs() > 0.05 {
            let _ = write!(path, "V{from_y:.1}");
        }
        let half = f64::midpoint(from_y, to_y);
        let _ = write!(path, "C{from_x:.1} {half:.1} {to_x:.1} {half:.1} {to_x:.1} {to_y:.1}");
        (x, y) = (to_x, to_y);
    }
    if let Some(&(last_x, last_y)) = points.last()
        && (last_y != y || last_x != x)
    {
        let _ = write!(path, "L{last_x:.1} {last_y:.1}");
    }
    path
}

fn head(points: &[(f64, f64)], back: bool) -> String {
    let tip = if back { points.first() } else { points.last() };
    let Some(&(x, y)) = tip else {
        return String::new();
    };
    let base = if back { y + HEAD + 1.0 } else { y - HEAD - 1.0 };
    format!("M{x:.1} {y:.1}L{:.1} {base:.1}H{:.1}Z", x - 4.2, x + 4.2)
}

#[cfg(test)]
mod tests {
    use super::apart;

    #[test]
    fn lines_keep_apart_and_near() {
        assert_eq!(apart(&[0.0, 0.0, 0.0], 10.0), [-10.0, 0.0, 10.0]);
        assert_eq!(apart(&[0.0, 50.0], 10.0), [0.0, 50.0]);
    }
}
