//! The one table of keys: the help on the screen and the list in `docs/tui.md` are made of it.

/// The keys, and what each does.
pub const KEYS: [(&str, &str); 20] = [
    ("1 … 8", "You, Runs, Board, Task, Journal, Money, Lessons, System"),
    ("j k ↑ ↓", "next, previous"),
    ("Enter", "open"),
    ("Esc", "back"),
    ("/", "filter"),
    (":", "go to a screen, or look with a command of ftl"),
    ("a", "answer what is chosen"),
    ("1 … 9 in an answer", "one of its choices"),
    ("R", "raise the limit that holds it; asks why and who"),
    ("O", "override: a declared way, although a condition does not hold; asks why and who"),
    ("S", "stop; asks why and who"),
    ("r", "try again what is held, or go on with what nobody drives"),
    ("w", "why it stands where it stands"),
    ("[ ]", "one entry back, on: the whole run as it stood then"),
    ("f", "follow: back to now"),
    ("Space", "fold what waits and what has landed"),
    ("Tab", "the other half"),
    ("c", "the command that it equals, at the bottom"),
    ("?", "these keys"),
    ("q", "leave; the runs go on"),
];

/// The page of the documents.
pub fn page() -> String {
    let mut page = String::from(
        "# The full-screen terminal\n\n`ftl tui` shows what [the page](serve.md) shows, in a terminal of at least 80 by 24, over SSH too. It reads the \
         store and leaves\nyour orders in it; it drives nothing, and leaving it changes nothing.\n\n| screen | shows |\n|---|---|\n| 1 You | what waits \
         for you over all runs, what sets most free first |\n| 2 Runs | all runs |\n| 3 Board | the tasks of a run, by depth, and why it stands |\n| 4 Task | one \
         task: its path, its state, what its agents say |\n| 5 Journal | entries, and one in full |\n| 6 Money | what is used and set aside, by role \
         |\n| 7 Lessons | what is remembered |\n| 8 System | agents, and whether one can work here |\n\n| key | does |\n|---|---|\n",
    );
    for (key, does) in KEYS {
        page.push_str(&format!("| `{key}` | {does} |\n"));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_what_the_table_says() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tui.md");
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            std::fs::write(&path, page()).unwrap();
        }
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        assert!(kept == page(), "docs/tui.md is not what the table says; UPDATE_SNAPSHOTS=1 writes it anew");
    }
}
