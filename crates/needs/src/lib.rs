//! Tests that say what they need of the machine.
//!
//! `#[needs(python3)]` above `#[test]` leaves the test as it is where Python is installed, and makes it an ignored
//! test with the reason where it is not: what did not run is never counted as passed. The build script looks what
//! there is. A test that was promised a thing and does not get it must fail. This crate is for tests only and sees
//! no other crate of ours. A test that is ignored anyway keeps its own reason.

use proc_macro::{Delimiter, TokenStream, TokenTree};

/// What tests may need, as `name=why it is missing` with `|` between; nothing behind `=` where it is there.
const NEEDS: &str = env!("FTL_NEEDS");

/// Ignores a test, with the reason, where the machine does not have all that is named.
///
/// It stands above `#[test]`. The names are those of the build script: programs, agents with `_` for `-`, `root`,
/// `namespaces`, `mounts`, `disks`, `sha256`, `reftable` and `wasm32`.
#[proc_macro_attribute]
pub fn needs(names: TokenStream, test: TokenStream) -> TokenStream {
    if has_attribute(test.clone(), "ignore") {
        return test;
    }
    let attribute = match ignored(NEEDS, &names.to_string(), has_attribute(test.clone(), "test")) {
        Ok(None) => return test,
        Ok(Some(why)) => format!("#[ignore = {why:?}]"),
        Err(wrong) => format!("compile_error!({wrong:?});"),
    };
    let mut tokens: TokenStream = attribute.parse().unwrap_or_default();
    tokens.extend(test);
    tokens
}

/// Why a test is ignored that needs these; what is wrong with the attribute.
fn ignored(needs: &str, names: &str, is_test: bool) -> Result<Option<String>, String> {
    if !is_test {
        return Err(String::from("#[needs(…)] stands above #[test]"));
    }
    for name in names.split(',').map(str::trim) {
        let mut rows = needs.split('|').filter_map(|row| row.split_once('='));
        match rows.find(|(known, _)| *known == name) {
            Some((_, "")) => {}
            Some((_, why)) => return Ok(Some(format!("needs {name}: {why}"))),
            None => return Err(format!("nobody looks for `{name}`; the build script of ftl-needs does")),
        }
    }
    Ok(None)
}

/// Whether an attribute of that name is among those that follow.
fn has_attribute(item: TokenStream, name: &str) -> bool {
    item.into_iter().any(|token| match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => {
            matches!(group.stream().into_iter().next(), Some(TokenTree::Ident(first)) if first.to_string() == name)
        }
        TokenTree::Group(_) | TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_with_its_name() {
        let needs = "a=|b=b is not installed; install it|c=";
        assert_eq!(ignored(needs, "a", true), Ok(None));
        assert_eq!(ignored(needs, "a, c", true), Ok(None));
        assert_eq!(ignored(needs, "a, b", true), Ok(Some("needs b: b is not installed; install it".into())));
        assert!(ignored(needs, "d", true).unwrap_err().contains("`d`"));
        assert!(ignored(needs, "a", false).unwrap_err().contains("above #[test]"));
    }

    #[test]
    fn the_build_script_tells_of_every_kind() {
        let names: Vec<&str> = NEEDS.split('|').filter_map(|row| Some(row.split_once('=')?.0)).collect();
        for name in ["python3", "gofmt", "reftable", "root", "namespaces", "disks", "claude_acp", "wasm32"] {
            assert!(names.contains(&name), "{name}: {NEEDS}");
        }
    }
}
