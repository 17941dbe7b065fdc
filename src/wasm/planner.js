// planner.js - the planner in WebAssembly, asked as the server would be: planner("/api/play?what=gpt2&tokens=1e10").
// scripts/playground joins it with the page's modules; tests/oracle/test_play_file.py runs it under node.

// What the C library asks of its machine: the time, and a place for the words of a failed assertion. All else is absent:
// files are not found, and what was left out of this build (kernels, data sets) is never called.
function machineOf(memory) {
  const view = () => new DataView(memory().buffer);
  return {
    environ_sizes_get: (count, size) => { view().setUint32(count, 0, true); view().setUint32(size, 0, true); return 0; },
    environ_get: () => 0,
    clock_time_get: (id, _, out) => { view().setBigUint64(out, BigInt(Math.round((id === 0 ? Date.now() : performance.now()) * 1e6)), true); return 0; },
    fd_write: (_, parts, count, out) => {
      let text = "", size = 0;
      for (let i = 0; i < count; i++) {
        const at = view().getUint32(parts + 8 * i, true), bytes = view().getUint32(parts + 8 * i + 4, true);
        text += new TextDecoder().decode(new Uint8Array(memory().buffer, at, bytes));
        size += bytes;
      }
      console.error(text);
      view().setUint32(out, size, true);
      return 0;
    },
    proc_exit: (code) => { throw new Error("the planner ended with code " + code); },
    emscripten_notify_memory_growth: () => {},
  };
}
function importsOf(module, memory) {
  const machine = machineOf(memory), imports = {}, none = 52; // ENOSYS
  for (const { module: room, name } of WebAssembly.Module.imports(module)) {
    imports[room] ??= {};
    if (name in machine) imports[room][name] = machine[name];
    else if (name.startsWith("__syscall_")) imports[room][name] = () => -none;
    else if (room === "wasi_snapshot_preview1") imports[room][name] = () => none;
    else imports[room][name] = () => { throw new Error(name + " is not in this file"); };
  }
  return imports;
}

export async function plannerOf(bytes) {
  const module = await WebAssembly.compile(bytes);
  let instance = null;
  instance = await WebAssembly.instantiate(module, importsOf(module, () => instance.exports.memory));
  const doors = instance.exports, memory = () => new Uint8Array(doors.memory.buffer);
  const textAt = (at) => { const all = memory(); return new TextDecoder().decode(all.subarray(at, all.indexOf(0, at))); };
  doors._initialize();
  if (doors.planner_open()) throw new Error(textAt(doors.planner_error()));
  return (path) => {
    const [name, query] = path.split("?");
    if (name === "/api/choices") return JSON.parse(textAt(doors.planner_choices()));
    if (name !== "/api/play") throw new Error("not in this file");
    const words = new TextEncoder().encode([...new URLSearchParams(query)].map(([k, v]) => k + "=" + v.replaceAll("\n", " ")).join("\n") + "\0");
    if (words.length > doors.planner_question_bytes()) throw new Error("the question is too long");
    memory().set(words, doors.planner_question());
    return JSON.parse(textAt(doors.planner_ask()));
  };
}
