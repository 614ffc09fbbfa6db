//! Links the program at a fixed address.
//!
//! A program that may be loaded anywhere has every address in its tables written when it starts: a megabyte of memory
//! of its own for each process, and most of what a short command costs. The guard of an attempt is this program, so a
//! thousand agents would pay it a thousand times (ADR 0048). Libraries, heap and stack lie at random addresses as before.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, wanted: &[&str]| std::env::var(name).is_ok_and(|value| wanted.contains(&&*value));
    // Elsewhere the linker has other words for it, or none.
    if is("CARGO_CFG_TARGET_OS", &["linux"])
        && is("CARGO_CFG_TARGET_ENV", &["gnu"])
        && is("CARGO_CFG_TARGET_ARCH", &["x86_64", "aarch64"])
    {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
