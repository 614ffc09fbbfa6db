//! A home for commands that judge work: an empty folder, and homes of package managers that hold what was fetched before
//! and nothing of the person's settings and credentials.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ftl_folder as folder;
use ftl_store::ContentDigest;

/// Homes of package managers that hold credentials beside what was fetched, with the folders that are handed on.
const SHARED: [(&str, &[&str]); 2] =
    [("CARGO_HOME", &["registry", "git"]), ("GRADLE_USER_HOME", &["caches", "wrapper", "jdks"])];

/// How the names of the homes that are made here begin.
const TOOLS: &str = "ftl-tools-";

/// The settings of cargo that say where packages come from.
const SOURCES: [&str; 3] = ["source", "net", "http"];

/// The longest file of settings that is read.
const MAX_SETTINGS_BYTES: u64 = 1024 * 1024;

/// Gives an environment without a home one of its own, below this folder.
pub(crate) fn give_home(env: &mut Vec<(OsString, OsString)>, below: &Path) -> io::Result<()> {
    if env.iter().any(|(name, _)| name == "HOME") {
        return Ok(());
    }
    let home = below.join("home");
    folder::make_new_as(&home, 0o700)?;
    let uid = folder::metadata(&home)?.uid();
    env.push(("HOME".into(), home.into()));
    for (name, parts) in SHARED {
        for (_, value) in env.iter_mut().filter(|(known, _)| known == name) {
            let own = make_private(Path::new(value), parts, uid);
            // Without one of the same path each time what was fetched is fetched again, and nothing else is lost.
            *value = own.unwrap_or_else(|_| below.join(name)).into();
        }
    }
    Ok(())
}

/// The homes of package managers in an environment that were made here.
pub(crate) fn list_tool_homes(env: &[(OsString, OsString)]) -> Vec<PathBuf> {
    let is_home = |name: &OsString| SHARED.iter().any(|(shared, _)| name == shared);
    let homes = env.iter().filter(|(name, _)| is_home(name)).map(|(_, value)| PathBuf::from(value));
    let is_made = |home: &PathBuf| {
        home.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(TOOLS.as_bytes()))
    };
    homes.filter(is_made).collect()
}

/// A home of a package manager at a path that stays the same, so that builds which are kept stay good.
fn make_private(real: &Path, parts: &[&str], uid: u32) -> io::Result<PathBuf> {
    let digest = ContentDigest::of(real.as_os_str().as_encoded_bytes()).to_string();
    let name = format!("{TOOLS}{uid}-{}", digest.get(..16).unwrap_or(&digest));
    let own = std::env::temp_dir().canonicalize()?.join(name);
    match folder::make_new_as(&own, 0o700) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(_) | Err(_) => {}
    }
    let found = folder::metadata(&own)?;
    if !found.is_dir() || found.uid() != uid || found.mode() & 0o077 != 0 {
        return Err(io::Error::other(format!("`{}` is not ours alone", own.display())));
    }
    let settings = read_sources(real);
    for name in folder::names(&own)? {
        // Another verify may read these settings just now: they are replaced in one step.
        let is_ours = settings.is_some() && name == "config.toml";
        let is_part = is_ours || parts.iter().any(|part| name == *part);
        if !is_part && !name.as_encoded_bytes().starts_with(b".") {
            folder::remove_whole(&own.join(&name))?;
        }
    }
    for part in parts {
        let link = folder::NameIn::at(&own.join(part))?;
        let target = real.join(part);
        if link.read_link().ok().as_ref() != Some(&target) && folder::is_folder(&target) {
            folder::remove_whole(&own.join(part))?;
            match link.make_link(&target) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
    }
    if let Some(settings) = settings {
        folder::replace(&own.join("config.toml"), settings.as_bytes())?;
    }
    Ok(own)
}

/// Where cargo's packages come from, without what proves who somebody is.
fn read_sources(real: &Path) -> Option<String> {
    let read = |name: &str| folder::read_named_text(&real.join(name), MAX_SETTINGS_BYTES).ok();
    let text = read("config.toml").or_else(|| read("config"))?;
    let mut table: toml::Table = text.parse().ok()?;
    let names = table.get("registries").and_then(|all| all.as_table()).cloned().unwrap_or_default();
    let indexes = names.into_iter().filter_map(|(name, one)| {
        let index = one.get("index")?.clone();
        Some((name, toml::Value::Table(toml::Table::from_iter([("index".to_owned(), index)]))))
    });
    let indexes: toml::Table = indexes.collect();
    table.retain(|name, _| SOURCES.contains(&name));
    if !indexes.is_empty() {
        table.insert("registries".to_owned(), toml::Value::Table(indexes));
    }
    (!table.is_empty()).then(|| table.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_is_empty_and_holds_what_was_fetched_without_credentials() {
        let (real, below) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::create_dir(real.path().join("registry")).unwrap();
        std::fs::write(real.path().join("registry/x"), "fetched").unwrap();
        std::fs::write(real.path().join("credentials.toml"), "[registry]\ntoken = \"s3cret\"\n").unwrap();
        let settings = "[registries.own]\nindex = \"https://own\"\ntoken = \"s3cret\"\n[source.crates-io]\n\
            replace-with = \"own\"\n[build]\nrustflags = [\"-x\"]\n";
        std::fs::write(real.path().join("config.toml"), settings).unwrap();
        let mut env = vec![(OsString::from("CARGO_HOME"), real.path().as_os_str().to_owned())];
        give_home(&mut env, below.path()).unwrap();
        let value =
            |name: &str| env.iter().find(|(known, _)| known == name).map(|(_, value)| PathBuf::from(value));
        let (home, cargo) = (value("HOME").unwrap(), value("CARGO_HOME").unwrap());
        assert_eq!(std::fs::read_dir(&home).unwrap().count(), 0);
        assert_eq!(std::fs::read_to_string(cargo.join("registry/x")).unwrap(), "fetched");
        assert!(!cargo.join("credentials.toml").exists());
        let told = std::fs::read_to_string(cargo.join("config.toml")).unwrap();
        assert!(told.contains("https://own") && told.contains("replace-with"), "{told}");
        assert!(!told.contains("s3cret") && !told.contains("rustflags"), "{told}");
        // What a command left there is gone for the next one, which gets the same path.
        std::fs::write(cargo.join("config"), "[build]\nrustflags = [\"-x\"]\n").unwrap();
        let uid = std::fs::metadata(real.path()).unwrap().uid();
        let again = make_private(real.path(), SHARED[0].1, uid).unwrap();
        assert!(again == cargo && !cargo.join("config").exists());
        std::fs::remove_dir_all(cargo).unwrap();
    }

    #[test]
    fn a_home_that_somebody_gave_stays() {
        let below = tempfile::tempdir().unwrap();
        let mut env = vec![(OsString::from("HOME"), OsString::from("/h"))];
        give_home(&mut env, below.path()).unwrap();
        assert_eq!(env.len(), 1);
        assert!(!below.path().join("home").exists());
    }
}
