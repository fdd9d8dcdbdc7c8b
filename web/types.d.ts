/** The replies of the lab module, as far as the page reads them. */
export interface Row {
  phase: string;
  variables: Record<string, string>;
  waits_for: number[];
  points: [string, number][];
}
export interface Sent {
  id: number;
  from: number;
  to: number;
  kind: string;
  text: string;
  sent: number;
  lazy?: boolean;
}
export interface Wait {
  from: number;
  to: number;
  why: "waits-for" | "needs-vote-of" | "has-voted-for";
}
export interface Finding {
  problem: "deadlock" | "mutual-exclusion" | "property" | "invalid";
  sentence: string;
  cycle: Wait[];
}
export interface Step {
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
export interface Choice {
  line: string;
  act: string;
  from: number;
  to?: number;
  id?: number;
  text?: string;
  outcome?: string;
  refusal?: string;
}
export interface Structure {
  kind: "complete" | "ring" | "tree" | "quorums";
  edges?: [number, number][];
  of?: number[][];
  columns?: number | null;
}
export interface Arrow {
  from: number;
  to: number;
  sent: number;
  end: number | null;
}
export interface Played {
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
  diagram: { svg: string; columns: [number, number][]; arrows: Arrow[] };
  hash: string;
  left_out: string[];
}
export interface Risk {
  level: "no" | "yes" | "certainly" | "unknown";
  sentence: string;
  nearest: number | null;
  states: number;
}
export interface Goal {
  property: string;
  steps: number | null;
  decided: boolean;
  states: number;
  entries: number;
}
export interface Algorithm {
  name: string;
  title: string;
  election: boolean;
  control: boolean;
  structure: string;
  idea: string;
}
export interface Catalogue {
  version: string;
  scenes: { name: string; title: string; shows: string }[];
  examples: { name: string; algorithm: string; shows: string }[];
  controls: { name: string; algorithm: string }[];
  algorithms: Algorithm[];
}
export interface Figure {
  name: string;
  measured: number | null;
  theory: number | null;
  formula: string | null;
}
export interface Simulated {
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
export interface Point {
  nodes: number;
  messages: number | null;
  sync_delay: number | null;
  client_delay: number | null;
  throughput: number | null;
  messages_theory: number | null;
  formula: string | null;
  sync_theory: number | null;
}
export interface View {
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
