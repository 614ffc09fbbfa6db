//! The person's settings of git, as git lists them: asked for once, when a repository is opened. They are read,
//! and nothing that they name is run.

use std::path::{Path, PathBuf};

use super::commit::Person;
use super::runner::Runner;
use super::{ErrorKind, GitError, Settings, ask_as_person, probe};

struct One {
    /// Which kind of file it is from.
    scope: String,
    /// Its name, in the letters that git gives it.
    name: String,
    value: Vec<u8>,
}

/// The settings, in their order: of two with one name the last one holds.
pub(super) struct Told(Vec<One>);

impl Told {
    /// Asks git. This is also where a git that is too old is found out.
    pub(super) fn ask(runner: &Runner, settings: &Settings, own: &Path) -> Result<Told, GitError> {
        let said = ask_as_person(runner, settings, own, ["config", "--list", "-z", "--show-scope"])?;
        if said.code != 0 {
            runner.check_version(own)?;
        }
        let told = Told::read(&said.ok()?);
        if told.local("core.repositoryformatversion").is_none() {
            // It has left out what it does not understand. Asked about the repository itself, it says what that is.
            ask_as_person(runner, settings, own, ["rev-parse", "--show-object-format"])?.ok()?;
        }
        Ok(told)
    }

    /// What git printed: a scope, and a name with its value on the lines after it, each with a zero byte at its
    /// end.
    fn read(bytes: &[u8]) -> Told {
        let mut parts = bytes.split(|byte| *byte == 0);
        let mut all = Vec::new();
        while let (Some(scope), Some(rest)) = (parts.next(), parts.next()) {
            let mut rest = rest.splitn(2, |byte| *byte == b'\n');
            let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
            let (scope, name) = (text(Some(scope)), text(rest.next()));
            all.push(One { scope, name, value: rest.next().unwrap_or_default().to_vec() });
        }
        Told(all)
    }

    /// The value of a setting that holds; what is ours does not count.
    fn last(&self, name: &str) -> Option<&One> {
        self.0.iter().rev().find(|one| one.name == name && one.scope != "command")
    }

    /// The value of the repository's own file.
    fn local(&self, name: &str) -> Option<&One> {
        self.0.iter().rev().find(|one| one.name == name && one.scope == "local")
    }

    /// Whether the repository says that it has no checkout of its own.
    pub(super) fn is_bare(&self) -> bool {
        let value = self.local("core.bare").map(|one| String::from_utf8_lossy(&one.value).to_lowercase());
        value.is_some_and(|value| !["false", "no", "off", "0"].contains(&value.trim()))
    }

    fn text(&self, name: &str) -> Option<String> {
        let value = String::from_utf8_lossy(&self.last(name)?.value).trim().to_owned();
        (!value.is_empty()).then_some(value)
    }

    /// How the repository names its objects.
    pub(super) fn object_format(&self) -> Result<String, GitError> {
        let own =
            self.0.iter().rev().find(|one| one.name == "extensions.objectformat" && one.scope == "local");
        let format = own.map_or("sha1".into(), |one| String::from_utf8_lossy(&one.value).to_lowercase());
        match format.as_str() {
            "sha1" | "sha256" => Ok(format),
            other => {
                Err(GitError::new(ErrorKind::Unsuitable, format!("objects named by {other} are not known")))
            }
        }
    }

    /// The person's name and address.
    pub(super) fn person(&self) -> Option<Person> {
        Some(Person { name: self.text("user.name")?, email: self.text("user.email")? })
    }

    /// What the person has git ignore everywhere.
    pub(super) fn ignored(
        &self,
        runner: &Runner,
        settings: &Settings,
        own: &Path,
    ) -> Result<Option<PathBuf>, GitError> {
        let Some(set) = self.last("core.excludesfile").map(|one| one.value.as_slice()) else {
            return Ok(settings.config_file("ignore"));
        };
        let path = match (set.strip_prefix(b"~/"), &settings.home) {
            (Some(rest), Some(home)) => home.join(probe::path(rest)),
            // Another user's home, or git's own folder: git knows where that is.
            _ if set.starts_with(b"~") || set.starts_with(b"%") || set.starts_with(b":") => {
                let words = ["config", "--type=path", "--get", "core.excludesFile"];
                let out = ask_as_person(runner, settings, own, words)?.out;
                probe::path(out.strip_suffix(b"\n").unwrap_or_default()).to_owned()
            }
            _ => probe::path(set).to_owned(),
        };
        Ok(Some(path).filter(|file| file.is_absolute()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn parse_settings(all: &[(&str, &str, &str)]) -> Told {
        let text: String =
            all.iter().map(|(scope, name, value)| format!("{scope}\0{name}\n{value}\0")).collect();
        Told::read(text.as_bytes())
    }

    #[test]
    fn of_two_settings_the_last_one_holds_and_what_is_ours_does_not_count() {
        let found = parse_settings(&[
            ("global", "user.name", "Ada"),
            ("global", "user.email", "a@example.org"),
            ("local", "user.name", "Ada, at work"),
            ("command", "user.name", "nobody"),
            ("global", "extensions.objectformat", "sha256"),
        ]);
        let person = found.person().unwrap();
        assert_eq!((person.name.as_str(), person.email.as_str()), ("Ada, at work", "a@example.org"));
        assert_eq!(
            found.object_format().unwrap(),
            "sha1",
            "only the repository says how its objects are named"
        );
        let of =
            |format: &str| parse_settings(&[("local", "extensions.objectformat", format)]).object_format();
        assert_eq!(of("SHA256").unwrap(), "sha256");
        assert_eq!(of("sha3").unwrap_err().trouble, ErrorKind::Unsuitable);
        assert!(
            parse_settings(&[("local", "user.name", " "), ("local", "user.email", "a@b")]).person().is_none()
        );
        let bare = |value: &str| parse_settings(&[("local", "core.bare", value)]).is_bare();
        assert!(
            bare("true")
                && bare("")
                && bare("Yes")
                && !bare("false")
                && !bare("0")
                && !parse_settings(&[]).is_bare()
        );
        assert!(Told::read(b"local\0alone\0").person().is_none(), "a name may have no value");
    }

    #[test]
    fn what_is_ignored_everywhere_is_found_from_home() {
        let folder = tempfile::tempdir().unwrap();
        let runner = Runner::find(Path::new("/nowhere")).unwrap();
        let config = folder.path().join("config/git");
        fs::create_dir_all(&config).unwrap();
        fs::write(config.join("ignore"), "").unwrap();
        let nobody = Person { name: String::new(), email: String::new() };
        let home = Some(folder.path().to_owned());
        let settings = Settings { home, config: Some(config.clone()), ..Settings::of(nobody) };
        let ignored = |value: &str| {
            let found = parse_settings(&[("global", "core.excludesfile", value)]);
            found.ignored(&runner, &settings, folder.path()).unwrap()
        };
        assert_eq!(ignored("~/.ignore"), Some(folder.path().join(".ignore")));
        assert_eq!(ignored("/etc/ignore"), Some("/etc/ignore".into()));
        assert_eq!(ignored("relative"), None);
        assert_eq!(ignored("~nobody-at-all/ignore"), None, "git does not know them either");
        let unset = parse_settings(&[]).ignored(&runner, &settings, folder.path()).unwrap();
        assert_eq!(unset, Some(config.join("ignore")));
    }
}
