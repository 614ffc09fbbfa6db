//! The page: its files, in the binary.

/// A file of the page: its path, its kind, its bytes.
type Asset = (&'static str, &'static str, &'static [u8]);

const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! script {
    ($name:literal) => {
        (concat!("/", $name), SCRIPT, include_bytes!(concat!("../assets/", $name)))
    };
}

/// Every file, modules in the order in which they need one another.
pub(crate) const ASSETS: &[Asset] = &[
    ("/", "text/html; charset=utf-8", include_bytes!("../assets/index.html")),
    ("/app.css", "text/css; charset=utf-8", include_bytes!("../assets/app.css")),
    ("/icon.svg", "image/svg+xml", include_bytes!("../assets/icon.svg")),
    script!("dom.js"),
    script!("api.js"),
    script!("act.js"),
    script!("graph.js"),
    script!("charts.js"),
    script!("machine.js"),
    script!("diff.js"),
    script!("run.js"),
    script!("task.js"),
    script!("pages.js"),
    script!("more.js"),
    script!("app.js"),
];

/// The file at a path.
pub(crate) fn find(path: &str) -> Option<(&'static str, &'static [u8])> {
    ASSETS.iter().find(|(name, ..)| *name == path).map(|(_, kind, bytes)| (*kind, *bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How large all scripts are, and all styles: our own script must not grow into a framework.
    const MAX_SCRIPT_BYTES: usize = 140 * 1024;
    /// How large those are that the first page needs: the others come when one goes to theirs.
    const MAX_FIRST_BYTES: usize = 48 * 1024;
    const MAX_STYLE_BYTES: usize = 20 * 1024;

    fn sum(kind: &str) -> usize {
        ASSETS.iter().filter(|(_, one, _)| one.starts_with(kind)).map(|(.., bytes)| bytes.len()).sum()
    }

    #[test]
    fn the_page_stays_small() {
        assert!(sum("text/javascript") <= MAX_SCRIPT_BYTES, "{}", sum("text/javascript"));
        let first = ["/dom.js", "/api.js", "/act.js", "/pages.js", "/app.js"];
        let bytes: usize = first.iter().map(|name| find(name).unwrap().1.len()).sum();
        assert!(bytes <= MAX_FIRST_BYTES, "{bytes}");
        for name in first {
            let text = std::str::from_utf8(find(name).unwrap().1).unwrap();
            let imports = text.lines().filter(|line| line.starts_with("import "));
            for line in imports {
                let from = line.rsplit('\'').nth(1).unwrap().trim_start_matches('.');
                assert!(first.contains(&from), "{name} needs {from}, which comes later");
            }
        }
        assert!(sum("text/css") <= MAX_STYLE_BYTES, "{}", sum("text/css"));
    }

    #[test]
    fn nothing_on_the_page_is_markup_of_others() {
        for (name, kind, bytes) in ASSETS.iter().filter(|(_, kind, _)| kind.starts_with("text/")) {
            let text = std::str::from_utf8(bytes).unwrap();
            for word in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"]
            {
                assert!(!text.contains(word), "{name} ({kind}) has {word}");
            }
        }
        let page = std::str::from_utf8(find("/").unwrap().1).unwrap();
        assert!(
            !page.contains("<style") && !page.contains(" style=") && !page.contains(" onclick="),
            "{page}"
        );
    }

    #[test]
    fn the_list_of_keys_is_that_of_the_one_table() {
        let script = std::str::from_utf8(find("/app.js").unwrap().1).unwrap();
        let line = script.lines().find(|line| line.starts_with("const KEYS = ")).unwrap();
        let pairs: Vec<String> =
            ftl_view::keys::of_page().map(|key| format!("['{}', '{}']", key.key, key.does)).collect();
        assert!(line.ends_with(&format!("([{}]);", pairs.join(", "))), "{line}");
    }

    #[test]
    fn modules_import_only_what_stands_before_them() {
        let mut before: Vec<&str> = Vec::new();
        for (name, _, bytes) in ASSETS.iter().filter(|(_, kind, _)| *kind == SCRIPT) {
            let text = std::str::from_utf8(bytes).unwrap();
            for line in text.lines().filter(|line| line.starts_with("import ")) {
                let from = line.rsplit('\'').nth(1).unwrap().trim_start_matches('.');
                assert!(before.contains(&from), "{name} imports {from}");
            }
            before.push(name);
        }
    }
}
