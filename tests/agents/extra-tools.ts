// Three tools that no script calls: what a lazy agent leaves out.
const text = { type: "string", description: "What it is about, in a few words." };
const TOOLS = [
  ["browse", "Fetch a page from the web and return its readable text, without navigation, advertisements and scripts. Follows up to five redirects."],
  ["database", "Run one read-only SQL query on the project's database and return the rows as a table. Statements that change data are refused."],
  ["calendar", "Look up, add or move an entry of the team's calendar. Times are local to the team; overlapping entries are reported, not prevented."],
];

export default function (pi: any): void {
  for (const [name, description] of TOOLS)
    pi.registerTool({
      name,
      label: name,
      description,
      parameters: { type: "object", required: ["subject"], properties: { subject: text, limit: { type: "number", description: "At most so many results." } } },
      execute: async () => ({ content: [{ type: "text", text: "nothing" }], details: {} }),
    });
}
