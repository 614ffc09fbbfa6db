//! The known name nearest to a wrong one: what "did you mean" says.
//!
//! Nothing here knows what the names are of; the code that refuses a name passes the names that exist.

/// The known name nearest to a wrong one, if it is near enough to be a slip.
pub fn nearest<N: AsRef<str>>(name: &str, known: impl IntoIterator<Item = N>) -> Option<String> {
    let budget = (name.chars().count() / 3).clamp(1, 3);
    known
        .into_iter()
        .map(|one| (distance(&name.to_lowercase(), &one.as_ref().to_lowercase()), one.as_ref().to_owned()))
        .filter(|(distance, one)| *distance <= budget && one != name)
        .min()
        .map(|(_, one)| one)
}

/// Edits between two words, a swap of neighbours counting one; long words are not compared.
fn distance(one: &str, two: &str) -> usize {
    const LONGEST: usize = 64;
    let (one, two): (Vec<char>, Vec<char>) = (one.chars().collect(), two.chars().collect());
    if one.len() > LONGEST || two.len() > LONGEST {
        return usize::MAX;
    }
    let mut rows = vec![(0..=two.len()).collect::<Vec<_>>()];
    for i in 1..=one.len() {
        let mut row = vec![i];
        for j in 1..=two.len() {
            let change = usize::from(one[i - 1] != two[j - 1]);
            let mut best = (rows[i - 1][j - 1] + change).min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && one[i - 1] == two[j - 2] && one[i - 2] == two[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[one.len()][two.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_word() {
        let known = ["passed", "failed", "summary", "tree"];
        assert_eq!(nearest("pased", known).as_deref(), Some("passed"));
        assert_eq!(nearest("summery", known).as_deref(), Some("summary"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest(&"x".repeat(5000), known), None);
    }
}
