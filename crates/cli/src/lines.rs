//! Text files with one item per line and comments after `#`.

/// The lines that are not empty, without comments, with their line numbers.
pub(crate) fn items(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or("").trim());
    (1..).zip(lines).filter(|(_, line)| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_empty_lines_are_skipped_but_counted() {
        let text = "# head\n\n0 1 # an edge\n   \n 1 2\n";
        assert_eq!(items(text).collect::<Vec<_>>(), [(3, "0 1"), (5, "1 2")]);
    }
}
