//! Text from a guest, made fit to be kept: bounded, and without control characters.

/// What stands at the end of a text that was cut.
const CUT: &str = " … (cut)";

/// At most `bytes_max` bytes of `text` (and a mark if it was longer), with no control characters but tab and newline.
pub(crate) fn clip(text: &str, bytes_max: usize) -> String {
    let kept = prefix(text, bytes_max);
    let mut clean = String::with_capacity(kept.len());
    clean.extend(kept.chars().filter(|c| !c.is_control() || matches!(c, '\t' | '\n')));
    if kept.len() < text.len() {
        clean.push_str(CUT);
    }
    clean
}

/// The longest prefix of at most `bytes_max` bytes that ends between two characters.
fn prefix(text: &str, bytes_max: usize) -> &str {
    if text.len() <= bytes_max {
        return text;
    }
    let end = (0..=bytes_max).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::clip;

    #[test]
    fn a_long_text_is_cut_between_characters_and_says_so() {
        assert_eq!(clip("grün", 3), "gr … (cut)");
        assert_eq!(clip("grün", 4), "grü … (cut)");
        assert_eq!(clip("grün", 5), "grün");
    }

    #[test]
    fn control_characters_are_kept_out() {
        assert_eq!(clip("a\x1b[31mb\0c\td\ne\u{9b}f\r", 100), "a[31mbc\td\nef");
    }
}
