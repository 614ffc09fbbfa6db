//! Templates of commit messages: what they may name.

/// What a template may name in braces.
pub const PLACEHOLDERS: [&str; 7] = ["subject", "body", "objective", "task", "run", "agent", "model"];

/// The names in braces that a template has and nobody fills in.
pub fn unknown_placeholders(template: &str) -> Vec<String> {
    let named = template.split('{').skip(1).filter_map(|part| part.split_once('}'));
    let unknown = named.map(|(name, _)| name).filter(|name| !PLACEHOLDERS.contains(name));
    unknown.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_nobody_fills_in_is_unknown() {
        assert_eq!(unknown_placeholders("{subject} {x} {run}"), ["x"]);
    }
}
