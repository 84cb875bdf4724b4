#include "mechanisms/digest_rules.h"

#define MUST CTXP_LINE_MUST
#define WARNING CTXP_LINE_WARNING
#define TOTAL CTXP_LINE_TOTAL
#define NOISE CTXP_LINE_NOISE
#define CASE CTXP_PHRASE_CASE
#define FIRST CTXP_PHRASE_FIRST
#define FLUSH CTXP_FLUSH
#define ANY CTXP_ANY_INDENT
#define INDENTED CTXP_INDENTED
#define CALL CTXP_PHRASE_CALL
#define WEAK CTXP_PHRASE_WEAK

const struct ctxp_phrase ctxp_phrases[] = {
    {"abort", MUST, WEAK}, {"aborted", MUST, 0}, {"aborting", MUST, WEAK}, {"added", TOTAL, FIRST}, {"already exists", MUST, WEAK},
    {"assert", MUST, FIRST}, {"assertion", MUST, CALL}, {"assertions failed", MUST, 0},
    {"backtrace", MUST, WEAK}, {"bad interpreter", MUST, 0}, {"broken pipe", MUST, 0}, {"building", NOISE, FIRST}, {"built target", NOISE, 0},
    {"bus error", MUST, 0}, {"can't", MUST, WEAK}, {"cannot", MUST, WEAK}, {"caused by", MUST, 0}, {"changed", TOTAL, 0}, {"checking", NOISE, FIRST},
    {"command not found", MUST, 0}, {"compiling", NOISE, FIRST}, {"conflict", MUST, WEAK}, {"connection refused", MUST, 0},
    {"connection reset", MUST, 0}, {"copying", NOISE, FIRST}, {"core dumped", MUST, 0}, {"corrupt", MUST, WEAK}, {"corrupted", MUST, 0},
    {"could not", MUST, WEAK}, {"couldn't", MUST, WEAK}, {"coverage", TOTAL, 0}, {"crash", MUST, WEAK}, {"crashed", MUST, 0}, {"critical", MUST, WEAK},
    {"deadlock", MUST, 0}, {"denied", MUST, WEAK}, {"deprecated", WARNING, 0}, {"deprecationwarning", WARNING, 0}, {"does not exist", MUST, WEAK},
    {"doesn't exist", MUST, WEAK}, {"done", TOTAL, FIRST}, {"downloading", NOISE, FIRST}, {"downloaded", NOISE, FIRST},
    {"elapsed", TOTAL, 0}, {"emerg", MUST, 0}, {"emergency", MUST, WEAK}, {"err", MUST, WEAK}, {"ERR", MUST, CASE}, {"error", MUST, 0}, {"errors", MUST, 0}, {"errored", MUST, 0},
    {"exception", MUST, 0}, {"exceptions", MUST, 0}, {"exit code", MUST, WEAK}, {"exit status", MUST, WEAK}, {"exited with", MUST, 0}, {"expected", MUST, WEAK},
    {"fail", MUST, 0}, {"failed", MUST, CALL}, {"failing", MUST, 0}, {"fails", MUST, 0}, {"failure", MUST, 0}, {"failures", MUST, 0},
    {"fatal", MUST, 0}, {"fault", MUST, WEAK}, {"fetching", NOISE, FIRST}, {"file not found", MUST, 0}, {"files changed", TOTAL, 0}, {"finished", TOTAL, FIRST}, {"found", TOTAL, FIRST},
    {"generating", NOISE, FIRST}, {"get", NOISE, FIRST}, {"hit", NOISE, FIRST},
    {"illegal instruction", MUST, 0}, {"import error", MUST, 0}, {"insertions", TOTAL, 0}, {"installing", NOISE, FIRST}, {"installed", NOISE, FIRST},
    {"invalid", MUST, WEAK}, {"is not defined", MUST, 0}, {"is not recognized", MUST, 0}, {"killed", MUST, WEAK},
    {"leak", MUST, WEAK}, {"leaked", MUST, WEAK}, {"linking", NOISE, FIRST}, {"mismatch", MUST, WEAK}, {"missing", MUST, WEAK}, {"module not found", MUST, 0},
    {"multiple definition", MUST, 0}, {"no module named", MUST, 0}, {"no rule to make", MUST, 0}, {"no space left", MUST, 0}, {"no such", MUST, 0}, {"not a git repository", MUST, 0},
    {"not found", MUST, WEAK}, {"not ok", MUST, 0}, {"not permitted", MUST, 0}, {"oom", MUST, 0}, {"out of memory", MUST, 0}, {"overflow", MUST, WEAK},
    {"panic", MUST, CALL}, {"panicked", MUST, 0}, {"panics", MUST, 0}, {"permission denied", MUST, 0}, {"preparing", NOISE, FIRST}, {"processing", NOISE, FIRST},
    {"ran", TOTAL, FIRST}, {"reading", NOISE, FIRST}, {"receiving", NOISE, 0}, {"refused", MUST, WEAK}, {"rejected", MUST, WEAK}, {"removed", TOTAL, FIRST}, {"requirement already satisfied", NOISE, 0},
    {"resolving", NOISE, FIRST}, {"runtime error", MUST, 0},
    {"segfault", MUST, 0}, {"segmentation", MUST, 0}, {"selecting", NOISE, FIRST}, {"setting up", NOISE, FIRST}, {"severe", MUST, WEAK}, {"stack overflow", MUST, 0},
    {"syntax error", MUST, 0}, {"terminated", MUST, WEAK}, {"timed out", MUST, 0}, {"timeout", MUST, WEAK}, {"total", TOTAL, 0}, {"traceback", MUST, 0},
    {"unable", MUST, WEAK}, {"uncaught", MUST, 0}, {"undeclared", MUST, 0}, {"undefined", MUST, WEAK}, {"unexpected", MUST, WEAK}, {"unhandled", MUST, 0},
    {"unpacking", NOISE, FIRST}, {"unreachable", MUST, WEAK}, {"unrecognized", MUST, 0}, {"unresolved", MUST, 0}, {"unsatisfied", MUST, 0},
    {"using cached", NOISE, 0}, {"violation", MUST, WEAK}, {"vulnerabilities", TOTAL, 0}, {"vulnerability", WARNING, 0},
    {"warn", WARNING, 0}, {"warning", WARNING, 0}, {"warnings", WARNING, 0}, {"writing", NOISE, FIRST}, {"wrote", TOTAL, FIRST},
};
const size_t ctxp_phrases_count = sizeof(ctxp_phrases) / sizeof(ctxp_phrases[0]);

const struct ctxp_beginning ctxp_beginnings[] = {
    /* tracebacks: Python, JavaScript and Java, Go, C and C++, Rust */
    {"File \"", MUST, ANY}, {"at ", MUST, INDENTED}, {"... ", MUST, INDENTED}, {"goroutine ", MUST, FLUSH}, {"created by ", MUST, ANY}, {"stack backtrace", MUST, FLUSH},
    {"--> ", MUST, ANY}, {"During handling of", MUST, FLUSH}, {"The above exception", MUST, FLUSH},
    /* test runners */
    {"E   ", MUST, FLUSH}, {"E  ", MUST, FLUSH}, {"FAIL", MUST, ANY}, {"--- FAIL", MUST, ANY}, {"not ok", MUST, ANY}, {"=== FAIL", MUST, ANY}, {"[  FAILED", MUST, FLUSH}, {"____", MUST, FLUSH}, {"XPASS", MUST, ANY},
    {"\xe2\x9c\x97", MUST, ANY}, {"\xe2\x9c\x95", MUST, ANY}, {"\xe2\x9c\x98", MUST, ANY}, {"\xe2\x9c\x96", MUST, ANY}, {"\xc3\x97", MUST, ANY}, {"\xe2\x97\x8f", MUST, ANY}, {"\xe2\x9d\x8c", MUST, ANY},
    {"BUILD FAILED", MUST, FLUSH}, {"BUILD SUCC", MUST, FLUSH}, {"test result:", MUST, FLUSH}, {"Tests:", MUST, ANY}, {"Test Suites:", MUST, ANY}, {"OK (", MUST, FLUSH}, {"Ran ", MUST, FLUSH},
    {"1..", TOTAL, FLUSH}, {"ok ", NOISE, ANY}, {"PASS", NOISE, ANY}, {"\xe2\x9c\x93", NOISE, ANY}, {"\xe2\x9c\x94", NOISE, ANY}, {"=== RUN", NOISE, FLUSH}, {"--- PASS", NOISE, ANY}, {"[ RUN", NOISE, FLUSH}, {"[       OK", NOISE, FLUSH},
    /* compilers and build tools */
    {"make: ***", MUST, FLUSH}, {"CMake Error", MUST, FLUSH}, {"ninja: build stopped", MUST, FLUSH}, {"ld: ", MUST, FLUSH}, {"/usr/bin/ld:", MUST, FLUSH}, {"collect2:", MUST, FLUSH}, {"npm ERR!", MUST, FLUSH}, {"E: ", MUST, FLUSH},
    {"W: ", WARNING, FLUSH}, {"npm WARN", WARNING, FLUSH}, {"npm warn", WARNING, FLUSH}, {"ninja: no work to do", TOTAL, FLUSH},
    /* version control, listings */
    {"fatal: ", MUST, FLUSH}, {"CONFLICT", MUST, FLUSH}, {"<<<<<<<", MUST, FLUSH}, {">>>>>>>", MUST, FLUSH}, {"remote: ", NOISE, FLUSH}, {"total ", TOTAL, FLUSH}, {"diff --git ", TOTAL, FLUSH}, {"commit ", TOTAL, FLUSH}, {"Command exited with code", MUST, FLUSH},
    {"On branch", TOTAL, FLUSH}, {"Your branch", TOTAL, FLUSH}, {"Already up to date", TOTAL, FLUSH},
};
const size_t ctxp_beginnings_count = sizeof(ctxp_beginnings) / sizeof(ctxp_beginnings[0]);

const char *const ctxp_counted_words[] = {
    "passed", "failed", "passing", "failing", "failures", "failure", "errors", "error", "skipped", "tests", "examples", "assertions", "pending",
    "warnings", "xfailed", "xpassed", "deselected", "suites", "specs", "ignored", "problems", "pass", "fail",
};
const size_t ctxp_counted_words_count = sizeof(ctxp_counted_words) / sizeof(ctxp_counted_words[0]);
