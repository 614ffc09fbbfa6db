//! The keys of the terminal, out of the one table of `ftl-view`: the help on the screen and the list in `docs/tui.md` are made of it.

use ftl_view::keys::of_terminal;

/// The page of the documents.
pub fn page() -> String {
    let mut page = String::from(
        "# The full-screen terminal\n\n`ftl tui` shows what [the page](serve.md) shows, in a terminal of at least 80 by 24, over SSH too. It reads the \
         store and leaves\nyour orders in it; it drives nothing, and leaving it changes nothing.\n\n| screen | shows |\n|---|---|\n| 1 You | what waits \
         for you over all runs, what sets most free first |\n| 2 Runs | all runs |\n| 3 Board | the tasks of a run, by depth, and why it stands |\n| 4 Task | one \
         task: its brief, its path, where its time went, what its agents say, what gates said |\n| 5 Journal | entries, and one in full |\n| 6 Money | what is used and set aside, how it grew, by role \
         |\n| 7 Lessons | what is remembered, by the recall that agents get |\n| 8 System | agents with what each enforces, and whether one can work here |\n\n| key | does |\n|---|---|\n",
    );
    for key in of_terminal() {
        page.push_str(&format!("| `{}` | {} |\n", key.key, key.does));
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
