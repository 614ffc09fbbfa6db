//! Lines through measured points: what a calibration is made of.

/// The value of a line through the points; constant beyond its ends.
pub(crate) fn on_line(points: &[(f64, f64)], at: f64) -> f64 {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return 0.0 };
    for pair in points.windows(2) {
        let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
        if at >= x0 && at < x1 {
            return y0 + (at - x0) / (x1 - x0) * (y1 - y0);
        }
    }
    if at < first.0 { first.1 } else { last.1 }
}
