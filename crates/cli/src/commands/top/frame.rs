//! A frame of `mutua top`: what is shown, and where.

use anyhow::Result;
use mutua_client::proto::v1;
use ratatui::{
    Frame,
    crossterm::event::KeyCode,
    layout::{Constraint, Layout, Rect},
    style::{Modifier, Style},
    text::Line,
    widgets::{Paragraph, Row, Table, TableState},
};

use super::sample::{Rates, Sample, waiting};
use crate::commands::{
    locks::{ago, holder_text},
    plain,
    status::node_of,
};

/// The most members and waiters that have a row of their own.
const MEMBERS: usize = 7;
const QUEUE: usize = 5;
/// The rows above the tables.
const HEAD: u16 = 3;
/// How far the page keys move.
const PAGE: usize = 10;

/// What is shown.
pub(super) struct View {
    sample: Sample,
    rates: Option<Rates>,
    /// Why the last reading failed.
    failure: Option<String>,
    /// The name of the selected lock, which keeps its selection when the order changes.
    selected: Option<Vec<u8>>,
    /// Whether keys are read.
    keys: bool,
}

impl View {
    pub(super) fn new(sample: Sample) -> Self {
        Self { sample, rates: None, failure: None, selected: None, keys: true }
    }

    /// The same, to be printed: no keys are read.
    pub(super) fn printed(self) -> Self {
        Self { keys: false, ..self }
    }

    /// Takes up the next reading. After a failure the last one stays, with the reason.
    pub(super) fn update(&mut self, sample: Result<Sample>) {
        match sample {
            Ok(sample) => {
                self.rates = sample.since(&self.sample);
                self.sample = sample;
                self.failure = None;
            }
            Err(error) => self.failure = Some(format!("{error:#}")),
        }
    }

    /// Moves the selection.
    pub(super) fn select(&mut self, key: KeyCode) {
        let last = self.sample.locks.len().saturating_sub(1);
        let at = self.position();
        let at = match key {
            KeyCode::Up | KeyCode::Char('k') => at.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => (at + 1).min(last),
            KeyCode::PageUp => at.saturating_sub(PAGE),
            KeyCode::PageDown => (at + PAGE).min(last),
            KeyCode::Home => 0,
            KeyCode::End => last,
            _ => return,
        };
        self.selected = self.sample.locks.get(at).map(|lock| lock.name.clone());
    }

    /// The row of the selected lock; the first if there is no such lock any more.
    fn position(&self) -> usize {
        let locks = &self.sample.locks;
        let selected = self.selected.as_ref();
        let at = selected.and_then(|name| locks.iter().position(|lock| lock.name == *name));
        at.unwrap_or_default()
    }

    /// The height of a frame that shows all locks.
    pub(super) fn full_height(&self) -> u16 {
        let rows = self.sample.locks.len().max(1) + 2;
        let rows = u16::try_from(rows).unwrap_or(u16::MAX / 2);
        HEAD + self.members_height() + rows + self.queue_height() + 1
    }

    /// The width of a frame that shows all names and holders, up to what anybody reads.
    pub(super) fn full_width(&self) -> u16 {
        const MOST: usize = 1000;
        let longest = |texts: &mut dyn Iterator<Item = String>| {
            texts.map(|text| text.chars().count()).max().unwrap_or_default()
        };
        let Sample { locks, status, .. } = &self.sample;
        let names = &mut locks.iter().map(|lock| plain(&String::from_utf8_lossy(&lock.name)));
        let (names, holders) = (longest(names), longest(&mut locks.iter().map(holder)));
        let members = longest(&mut status.members.iter().map(|member| plain(&member.name)));
        let heads = longest(&mut self.head().iter().map(Line::to_string));
        let queue = self.sample.locks.get(self.position()).into_iter();
        let queue = longest(&mut queue.flat_map(|lock| &lock.waiting).map(waiter));
        // As the tables share what their other columns leave: two parts and three.
        let shared = |two: usize, three: usize| (two * 5).div_ceil(2).max((three * 5).div_ceil(3));
        let locks = 7 + 11 + 8 + 4 + shared(names, holders);
        let members = 11 + 6 + 8 + 4 + shared(members, 24);
        let width = [locks, members, heads, queue].into_iter().max().unwrap_or_default();
        u16::try_from(width.min(MOST)).unwrap_or(u16::MAX)
    }

    fn members_height(&self) -> u16 {
        let members = self.sample.status.members.len();
        if members < 2 { 0 } else { 2 + members.min(MEMBERS) as u16 }
    }

    fn queue_height(&self) -> u16 {
        let lock = self.sample.locks.get(self.position());
        let waiters = lock.map_or(0, |lock| lock.waiting.len().min(QUEUE)) as u16;
        if waiters == 0 { 0 } else { 2 + waiters }
    }

    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let [head, members, locks, queue, foot] = Layout::vertical([
            Constraint::Length(HEAD),
            Constraint::Length(self.members_height()),
            Constraint::Min(3),
            Constraint::Length(self.queue_height()),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(Paragraph::new(self.head()), head);
        if members.height > 0 {
            self.draw_members(frame, members);
        }
        self.draw_locks(frame, locks);
        if queue.height > 0 {
            self.draw_queue(frame, queue);
        }
        frame.render_widget(Paragraph::new(self.foot()), foot);
    }

    fn head(&self) -> Vec<Line<'static>> {
        let status = &self.sample.status;
        let view = match (status.view, status.epoch) {
            (Some(view), _) => format!("view {view}: "),
            (None, Some(epoch)) => format!("epoch {epoch}: "),
            (None, None) => String::new(),
        };
        let state = match (&self.failure, &status.suspended) {
            (Some(why), _) => format!("no answer, the last reading is shown: {why}"),
            (None, Some(why)) => format!("grants are suspended: {why}"),
            (None, None) => format!("{view}locks are granted"),
        };
        let good = self.failure.is_none() && status.suspended.is_none();
        let style = if good { Style::new() } else { Style::new().add_modifier(Modifier::REVERSED) };
        let rates = match self.rates {
            None => String::new(),
            Some(Rates { grants, messages }) => {
                let per = if grants > 0.0 { messages / grants } else { 0.0 };
                format!("; here {grants:.1} grants/s, {messages:.1} messages/s, {per:.2} per grant")
            }
        };
        let cluster = Some(&*status.cluster).filter(|name| !name.is_empty());
        let held = self.sample.locks.iter().filter(|lock| lock.holder.is_some()).count();
        let queued: usize = self.sample.locks.iter().map(waiting).sum();
        vec![
            Line::raw(format!("{}, pid {}", plain(&node_of(&status.node, cluster)), status.pid)),
            Line::styled(plain(&state), style),
            Line::raw(format!("held {held}, waiting {queued}{rates}")),
        ]
    }

    fn draw_members(&self, frame: &mut Frame<'_>, area: Rect) {
        let status = &self.sample.status;
        let row = |member: &v1::Member| {
            let state = match (member.name == status.node, member.up) {
                (true, _) => "this node".to_owned(),
                (false, true) => format!("connected for {}", ago(member.for_ms)),
                // It was not dialled yet.
                (false, false) if member.for_ms == 0 => "not connected".to_owned(),
                (false, false) => format!("not connected for {}", ago(member.for_ms)),
            };
            let role = if member.votes { "votes" } else { "" };
            let in_view = if member.in_view { "in view" } else { "not in view" };
            let cells = [
                plain(&member.name),
                state,
                in_view.into(),
                role.into(),
                member.backlog.to_string(),
            ];
            let lost = member.name != status.node && !member.up;
            let style = if lost { Style::new().add_modifier(Modifier::BOLD) } else { Style::new() };
            Row::new(cells).style(style)
        };
        let widths = [
            Constraint::Fill(2),
            Constraint::Fill(3),
            Constraint::Length(11),
            Constraint::Length(6),
            Constraint::Length(8),
        ];
        let rows = status.members.iter().take(MEMBERS).map(row);
        let head = header(["MEMBER", "LINK", "VIEW", "VOTER", "BACKLOG"]);
        frame.render_widget(Table::new(rows, widths).header(head), below(area));
    }

    fn draw_locks(&self, frame: &mut Frame<'_>, area: Rect) {
        let row = |lock: &v1::Lock| {
            let holder = lock.holder.as_ref();
            Row::new([
                plain(&String::from_utf8_lossy(&lock.name)),
                waiting(lock).to_string(),
                holder.map(|holder| ago(holder.for_ms)).unwrap_or_default(),
                holder.map(|holder| plain(&holder.node)).unwrap_or_default(),
                holder.map_or_else(|| self.no_holder().to_owned(), holder_text),
            ])
        };
        let widths = [
            Constraint::Fill(2),
            Constraint::Length(7),
            Constraint::Length(11),
            Constraint::Max(8),
            Constraint::Fill(3),
        ];
        let head = header(["LOCK", "WAITING", "HELD FOR", "NODE", "HOLDER"]);
        let table = Table::new(self.sample.locks.iter().map(row), widths)
            .header(head)
            .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        let mut state = TableState::new();
        if !self.sample.locks.is_empty() {
            state.select(Some(self.position()));
        }
        frame.render_stateful_widget(table, below(area), &mut state);
    }

    /// While a member has not answered, its client may hold the lock.
    fn no_holder(&self) -> &'static str {
        if self.sample.unanswered.is_empty() { "-" } else { "holder unknown" }
    }

    fn draw_queue(&self, frame: &mut Frame<'_>, area: Rect) {
        let Some(lock) = self.sample.locks.get(self.position()) else { return };
        let name = plain(&String::from_utf8_lossy(&lock.name));
        let mut lines = vec![Line::styled(
            format!("WAITING FOR {name}, IN ORDER OF ARRIVAL AT EACH NODE"),
            Style::new().add_modifier(Modifier::BOLD),
        )];
        lines.extend(lock.waiting.iter().take(QUEUE).map(|one| Line::raw(waiter(one))));
        frame.render_widget(Paragraph::new(lines), below(area));
    }

    fn foot(&self) -> String {
        let keys = self.keys.then(|| "q quit, arrows select".to_owned());
        let missing = match self.sample.unanswered.as_slice() {
            [] => None,
            names => Some(format!("no answer of {}", plain(&names.join(", ")))),
        };
        keys.into_iter().chain(missing).collect::<Vec<_>>().join("; ")
    }
}

fn waiter(entry: &v1::Entry) -> String {
    format!("{} for {}", holder_text(entry), ago(entry.for_ms))
}

fn holder(lock: &v1::Lock) -> String {
    lock.holder.as_ref().map(holder_text).unwrap_or_default()
}

fn header(names: [&'static str; 5]) -> Row<'static> {
    Row::new(names).style(Style::new().add_modifier(Modifier::BOLD))
}

/// The area without its first row, which stays empty.
fn below(area: Rect) -> Rect {
    Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use ratatui::{Terminal, backend::TestBackend};

    use super::*;

    fn lock(name: &str, waiters: usize) -> v1::Lock {
        let entry = |pid, fencing_token| v1::Entry {
            fencing_token,
            for_ms: 61_000,
            client: Some(v1::Client {
                owner: "ann".to_owned(),
                host: "vm".to_owned(),
                pid,
                command: "sleep \u{1b}[2J".to_owned(),
                ..Default::default()
            }),
            node: "a".to_owned(),
            ..Default::default()
        };
        v1::Lock {
            name: name.into(),
            holder: Some(entry(7, 5)),
            waiting: (0..waiters).map(|at| entry(at as u32 + 100, 0)).collect(),
            ..Default::default()
        }
    }

    fn view(locks: Vec<v1::Lock>) -> View {
        let member = |name: &str, up| v1::Member {
            name: name.to_owned(),
            up,
            for_ms: 2000,
            in_view: up,
            votes: true,
            ..Default::default()
        };
        let status = v1::StatusResponse {
            cluster: "shop".to_owned(),
            node: "a".to_owned(),
            pid: 42,
            view: Some(3),
            members: vec![member("a", true), member("b", true), member("c", false)],
            ..Default::default()
        };
        let (at, unanswered) = (Instant::now(), Vec::new());
        View::new(Sample { at, status, locks, unanswered })
    }

    fn shown(view: &View, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| view.draw(frame)).expect("drawn");
        let rows = terminal.backend().buffer().content().chunks(usize::from(width));
        rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>()).collect()
    }

    #[test]
    fn a_frame_shows_members_locks_and_the_queue_of_the_selected_lock() {
        let view = view(vec![lock("deploy", 2), lock("backup", 0)]);
        let lines = shown(&view, 80, 24);
        let text = lines.join("\n");
        assert!(lines[0].starts_with("node a of cluster shop, pid 42"), "{text}");
        assert!(lines[1].starts_with("view 3: locks are granted"), "{text}");
        assert!(lines[2].starts_with("held 2, waiting 2"), "{text}");
        for part in
            ["not connected for 2 s", "deploy", "1 min 1 s", "WAITING FOR deploy", "pid 101"]
        {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(!text.contains('\u{1b}'), "a command cannot write to the terminal");
        assert!(lines[23].starts_with("q quit"), "{text}");
    }

    #[test]
    fn what_is_printed_has_every_member_and_no_keys() {
        let view = view(Vec::new()).printed();
        let text = shown(&view, 80, view.full_height()).join("\n");
        for member in ["a ", "b ", "c "] {
            assert!(text.lines().any(|line| line.trim_start().starts_with(member)), "{text}");
        }
        assert!(!text.contains("q quit"), "{text}");
    }

    #[test]
    fn any_size_is_drawn_and_the_selection_follows_its_lock() {
        let mut view = view((0..50).map(|at| lock(&format!("l{at:02}"), 50 - at)).collect());
        for (width, height) in [(1, 1), (10, 3), (40, 8), (80, 24), (300, 100)] {
            shown(&view, width, height);
        }
        for key in [KeyCode::PageDown, KeyCode::Down, KeyCode::Up, KeyCode::Down] {
            view.select(key);
        }
        assert_eq!(view.selected.as_deref(), Some(&b"l11"[..]));
        view.sample.locks.reverse();
        assert_eq!(view.position(), 38);
        view.sample.locks.clear();
        assert_eq!(view.position(), 0);
        view.select(KeyCode::Down);
        shown(&view, 80, 24);
    }

    #[test]
    fn a_failed_reading_leaves_the_last_one_with_the_reason() {
        let mut view = view(vec![lock("deploy", 0)]);
        view.update(Err(anyhow::anyhow!("connection refused")));
        let lines = shown(&view, 80, 24);
        assert!(lines[1].contains("connection refused"), "{lines:?}");
        assert!(lines.iter().any(|line| line.starts_with("deploy")), "{lines:?}");
    }
}
