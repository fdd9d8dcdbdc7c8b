//! `mutua replay --language`: the language of scripts, from the parser's own tables.

use anyhow::Result;
use mutua_lab::script;

const HEAD: &str = "\
A script is a text file, one line for one thing. A, B and C are names of processes; words in
capitals are yours, [brackets] enclose what may be left out, ... repeats. Comments begin with #;
`# source:` and `# shows:` at the top describe the script, later ones are shown between the steps.
Below a line `---` stands the trace as it was last reviewed; a replay that differs fails.
A violation or an invalid message that no line expects fails the script.
";

/// The language as text.
pub(super) fn language() -> String {
    let mut text = HEAD.to_owned();
    for section in script::language() {
        text += &format!("\n{} {}:\n", section.title, section.about);
        for form in &section.forms {
            text += &format!("\n  {}\n", form.syntax);
            text += &super::show::wrapped(form.meaning, "      ");
            if form.example != form.syntax {
                text += &format!("      as in: {}\n", form.example);
            }
        }
    }
    text
}

/// The same as JSON.
pub(super) fn language_json() -> Result<String> {
    Ok(serde_json::to_string_pretty(&script::language())? + "\n")
}
