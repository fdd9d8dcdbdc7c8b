/** The replies of the lab module, as far as the page reads them. */
interface Row {
  phase: string;
  variables: Record<string, string>;
  waits_for: number[];
  points: [string, number][];
}
interface Sent {
  id: number;
  from: number;
  to: number;
  kind: string;
  text: string;
  sent: number;
  lazy?: boolean;
}
interface Wait {
  from: number;
  to: number;
  why: "waits-for" | "needs-vote-of" | "has-voted-for";
}
interface Finding {
  problem: "deadlock" | "mutual-exclusion" | "property" | "invalid";
  sentence: string;
  cycle: Wait[];
}
interface Step {
  line: string;
  comments: string[];
  words: string;
  who: number | null;
  received: [number, number] | null;
  rows: Record<string, Row>;
  in_flight: Sent[];
  entries: number;
  finding?: Finding;
}
interface Choice {
  line: string;
  act: string;
  from: number;
  to?: number;
  id?: number;
  text?: string;
  outcome?: string;
  refusal?: string;
}
interface Structure {
  kind: "complete" | "ring" | "tree" | "quorums";
  edges?: [number, number][];
  of?: number[][];
  columns?: number | null;
}
interface Arrow {
  from: number;
  to: number;
  sent: number;
  end: number | null;
}
interface Played {
  reply: "played";
  version: string;
  name: string;
  source: string;
  shows: string;
  algorithm: string;
  title: string;
  processes: string[];
  structure: Structure;
  fifo: boolean;
  head: string;
  steps: Step[];
  after: string[];
  choices: Choice[];
  diagram: { svg: string; columns: [number, number][]; arrows: Arrow[]; kinds: string[] };
  hash: string;
  left_out: string[];
  /** Of traces of nodes, the time of each step in nanoseconds. */
  times?: number[];
}
interface Risk {
  level: "no" | "yes" | "certainly" | "unknown";
  sentence: string;
  nearest: number | null;
  states: number;
}
interface Goal {
  property: string;
  steps: number | null;
  decided: boolean;
  states: number;
  entries: number;
}
interface Algorithm {
  name: string;
  title: string;
  election: boolean;
  control: boolean;
  structure: string;
  idea: string;
}
interface Catalogue {
  version: string;
  scenes: { name: string; title: string; shows: string }[];
  examples: { name: string; algorithm: string; shows: string }[];
  controls: { name: string; algorithm: string }[];
  algorithms: Algorithm[];
}
interface Figure {
  name: string;
  measured: number | null;
  theory: number | null;
  formula: string | null;
}
interface Simulated {
  version: string;
  title: string;
  command: string;
  figures: Figure[];
  without_theory: string;
  processes: string[];
  kinds: string[];
  messages: [number, number, number, number, number][];
  spans: [number, number, number, number][];
  end: number;
  cut: boolean;
  entered: [number, number][];
  violations: string[];
  hash: string;
}
interface Point {
  /** Where it is on the axis: processes, or the offered load. */
  x: number;
  nodes: number;
  messages: number | null;
  sync_delay: number | null;
  client_delay: number | null;
  throughput: number | null;
  messages_theory: number | null;
  formula: string | null;
  sync_theory: number | null;
}
interface View {
  played: Played;
  /** The step that is shown. */
  at: number;
  /** The rows of all processes at that step. */
  rows: Row[];
  /** The rows one step before. */
  before: Row[];
  /** The steps of the causal past of a clicked event, if one is clicked. */
  past: Set<number> | null;
  /** Choices on the network, in You decide. */
  choices: Choice[] | null;
}
/** A client that holds or waits for a lock. */
interface LiveClient {
  owner: string;
  host: string;
  pid: number;
  node: string;
  for_ms: number;
  fencing_token: string;
}
interface LiveLock {
  /** The name's bytes in hexadecimal digits. */
  id: string;
  name: string;
  algorithm: string;
  holder: LiveClient | null;
  waiting: LiveClient[];
  waiting_left_out: number;
}
/** A reading of a real cluster. */
interface LiveReply {
  node: string;
  cluster: string;
  epoch: number | null;
  view: number | null;
  leader: string | null;
  suspended: string | null;
  members: { name: string; up: boolean; for_ms: number; in_view: boolean; votes: boolean }[];
  locks: LiveLock[];
  unanswered: string[];
  trace: {
    now: number;
    members: { node: string; header: string; events: string[]; next: number; missed: number; grants: number; messages: number }[];
  } | null;
}
