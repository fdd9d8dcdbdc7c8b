//! The static site: the page of `mutua lab` with the lab module as WebAssembly.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

/// The target of the module.
const TARGET: &str = "wasm32-unknown-unknown";

/// Which build of the module the site gets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Build {
    /// Small and fast: whole-program optimization, several minutes.
    Optimized,
    /// As the tests have it: larger and slower, and quickly built.
    Quick,
}

/// Builds the site in this directory.
///
/// # Errors
///
/// If the module does not compile, or a file cannot be read or written.
pub fn build(root: &Path, out: &Path, build: Build) -> Result<()> {
    let module = module(root, build)?;
    fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    let web = root.join("web");
    let entries = fs::read_dir(&web).with_context(|| format!("cannot read {}", web.display()))?;
    for entry in entries {
        let path = entry.context("cannot read an entry of web")?.path();
        copy(&path, out)?;
    }
    let bytes = fs::read(&module).with_context(|| format!("cannot read {}", module.display()))?;
    write(&out.join("lab.wasm"), &bytes)
}

/// Copies a file of the page; pages get the module instead of a server.
fn copy(path: &Path, out: &Path) -> Result<()> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Ok(()) };
    let kind = path.extension().and_then(|kind| kind.to_str());
    let is_page = kind == Some("html");
    if !path.is_file() || name.ends_with(".d.ts") || !matches!(kind, Some("html" | "js" | "css")) {
        return Ok(());
    }
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let text = if is_page { with_module(&text)? } else { text };
    write(&out.join(name), text.as_bytes())
}

fn with_module(page: &str) -> Result<String> {
    let server = "<meta name=\"lab\" content=\"server\">";
    if !page.contains(server) {
        bail!("a page of web/ lacks {server}");
    }
    Ok(page.replace(server, "<meta name=\"lab\" content=\"module\">"))
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// Compiles the module and returns its file.
fn module(root: &Path, build: Build) -> Result<PathBuf> {
    let (profile, directory) = match build {
        Build::Optimized => ("module", "module"),
        Build::Quick => ("dev", "debug"),
    };
    let status = Command::new(std::env::var("CARGO").as_deref().unwrap_or("cargo"))
        .args(["build", "--locked", "-p", "mutua-module", "--target", TARGET])
        .args(["--profile", profile])
        .current_dir(root)
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("the module does not compile; is the target there? rustup target add {TARGET}");
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    Ok(target.join(TARGET).join(directory).join("mutua_module.wasm"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_switched_to_the_module() {
        for name in ["index.html", "compare.html"] {
            let page = fs::read_to_string(crate::root().join("web").join(name)).unwrap();
            assert!(with_module(&page).unwrap().contains("content=\"module\""), "{name}");
        }
        assert!(with_module("<html>").is_err());
    }
}
