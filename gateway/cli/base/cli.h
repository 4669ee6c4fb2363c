// The operator's command `walle`: a table of commands, their options, and what they share.
//
// A command is one row of the table in cli_command_map.h: its words, its options (a bit set), its
// examples, and a function that returns the exit code. Everything runs on one thread and lives
// until the process ends; a command owns what it allocates and releases it before it returns, so
// that leak checks stay meaningful.
#ifndef CLI_H
#define CLI_H

#include "base/status.h"
#include "cli/base/cli_command_map.h"
#include "base/str.h"

#include <stdint.h>

#define CLI_ARGS_MAX 8

// Exit codes, the same for every command; docs/API.md lists them.
enum cli_exit {
    CLI_EXIT_OK = 0,
    CLI_EXIT_FAILED = 1,      // the rollout's verdict is FAIL, or it was rolled back
    CLI_EXIT_USAGE = 2,       // words or options that make no sense
    CLI_EXIT_UNREACHABLE = 3, // no gateway answered
    CLI_EXIT_REFUSED = 4,     // the gateway answered with an error
    CLI_EXIT_LOCAL = 5,   // something on this machine: a file, a key, a task that does not compile
    CLI_EXIT_TIMEOUT = 6, // --timeout passed before the rollout ended
};

// X(name, short key or 0, long name, argument or NULL, text)
#define CLI_OPTION_MAP(X)                                                                          \
    X(GATEWAY, 'g', "gateway", "URL",                                                              \
      "Gateway to talk to (WALLE_GATEWAY; https://127.0.0.1:8443)")                                \
    X(TENANT, 0, "tenant", "NAME", "Tenant to act in, with a token of all (WALLE_TENANT)")         \
    X(CA, 0, "ca", "FILE", "Certificates to trust, PEM (WALLE_CA)")                                \
    X(INSECURE, 'k', "insecure", NULL, "Do not verify the gateway's certificate")                  \
    X(TOKEN, 0, "token", "TEXT", "Bearer token (WALLE_TOKEN; that of this user's own gateway)")    \
    X(FORMAT, 'o', "output", "FORMAT", "text (default) or json")                                   \
    X(OUT, 0, "out", "PATH", "Where to write")                                                     \
    X(COUNTER, 0, "release-counter", "N", "Counter to sign, above the task's: after an old copy")  \
    X(SERVED, 0, "served", NULL, "The newest root that the gateway serves")                        \
    X(VERSION, 0, "version", "X.Y.Z", "Version to release; of a build: instead of task.json's")    \
    X(MANIFEST, 0, "manifest", "SHA256", "Version to release, by the hash of its manifest")        \
    X(BUILD, 0, "build", "DIR", "Version to release, as built by walle task build")                \
    X(KEY, 0, "key", "FILE", "Private key that signs; repeat it when several sign")                \
    X(DRAFT, 0, "draft", "FILE", "Write the signed rollout there; others sign it, then submit it") \
    X(MEMBER, 0, "member", "FILE", "Public key of the root role; repeat it for more")              \
    X(RELEASE, 0, "release", "FILE", "Public key that may sign releases; repeat it for more")      \
    X(PREFIX, 0, "prefix", "TEXT", "Tasks these release keys are for (all)")                       \
    X(THRESHOLD, 0, "threshold", "N",                                                              \
      "Root keys that must sign; or a failed share to replay with")                                \
    X(NARROW, 0, "narrow", "N", "Release keys that must sign for few devices (1)")                 \
    X(WIDE, 0, "wide", "N", "Release keys that must sign for many devices (2, or all)")            \
    X(WIDE_PERCENT, 0, "wide-percent", "P", "More than this share is many (5)")                    \
    X(LEASE, 0, "lease", "SECONDS", "Longest lease in beta and gray stages; 0: none (3600)")       \
    X(STAGES, 0, "stages", "FILE", "Stages (JSON list) instead of the default ladder")             \
    X(TARGET, 0, "target", "EXPR", "Which devices: an expression, or a file of conditions")        \
    X(MIN_SAMPLE, 0, "min-sample", "N", "Completed devices needed to pass; may fail with fewer")   \
    X(MIN_DWELL, 0, "min-dwell", "SECONDS", "Shortest time in a stage (60; 0 with --stages)")      \
    X(MAX_FAILURE, 0, "max-failure", "RATIO", "Failed share that fails a stage, 0 to 1")           \
    X(MIN_ANSWERED, 0, "min-answered", "RATIO", "Share of devices that must answer to pass (0.9)") \
    X(GUARD, 0, "guard", "SECONDS", "Judge it for so long after the last stage passed (86400)")    \
    X(ON_FAIL, 0, "on-fail", "WHAT", "A stage that fails: roll_back (default), or hold and page")  \
    X(PRIORITY, 0, "priority", "N", "Of several open rollouts a device follows the highest (0)")   \
    X(FLOOR, 0, "floor", "VERSION",                                                                \
      "Oldest version a device may go back to once it took this one, orders of the gateway "       \
      "included (the baseline; the new version itself: to none)")                                  \
    X(EXPERIMENT, 0, "experiment", "SALT", "An arm of this experiment: 16 hex digits")             \
    X(ARM_FROM, 0, "arm-from", "PERCENT", "With --experiment: where the arm begins (0)")           \
    X(ARM_TO, 0, "arm-to", "PERCENT", "With --experiment: where it ends (100)")                    \
    X(EXPIRES, 0, "expires", "DAYS",                                                               \
      "Signed statements (90) or a token (ever) are good this long")                               \
    X(NO_START, 0, "no-start", NULL, "Create the rollout, start it later: rollout start ID")       \
    X(WATCH, 'w', "watch", NULL, "Stay and show progress until the rollout ends")                  \
    X(TIMEOUT, 0, "timeout", "SECONDS", "With --watch: give up after this long")                   \
    X(UNTIL, 0, "until", "WHAT", "With --watch: full (default), or completed: the guard is over")  \
    X(REASON, 0, "reason", "TEXT", "Why; kept in the rollout's log")                               \
    X(BY, 0, "by", "NAME", "Who; kept in the rollout's log (USER)")                                \
    X(ACCEPT_RISK, 0, "accept-risk", NULL, "Resume past a failed stage; needs --reason")           \
    X(EVIDENCE, 0, "evidence", "FILE", "Signed evidence of walle-fleet-sim simulate --evidence")   \
    X(OVERRIDE, 0, "override", NULL, "Numbers in place of evidence; another person approves them") \
    X(COMPLETED, 0, "completed", "N", "Virtual devices that completed the run")                    \
    X(FAILED, 0, "failed", "N", "Virtual devices among them that failed")                          \
    X(LIMIT, 0, "limit", "N", "At most this many (100; 500 at most)")                              \
    X(DEVICE, 0, "device", "ID", "Device id the script sees, 16 hex digits")                       \
    X(ATTRS, 0, "attrs", "FILE", "Attributes the script sees (JSON object)")                       \
    X(INPUT, 0, "input", "FILE", "Input the script sees (JSON)")                                   \
    X(GIVE, 0, "give", "NAME=PATH", "File a script gets as walle.blob(NAME); repeat it for more")  \
    X(REPEAT, 0, "repeat", "N", "Run N times; the fastest time is shown")                          \
    X(EVENTS, 0, "events", "FILE", "Recorded events to play, lines of walle-device --events")      \
    X(STORE, 0, "store", "FILE", "Keep walle.store in this file from run to run")                  \
    X(SAMPLES, 0, "samples", NULL, "Try the version on the samples of task.json, as a build does") \
    X(NO_DRY_RUN, 0, "no-dry-run", NULL, "Build also what fails on the samples of task.json")      \
    X(MAX_RISE, 0, "max-rise", "RATIO", "Rise over control that a stage must show or exclude")     \
    X(RULE, 0, "rule", "RULE",                                                                     \
      "How stages are judged that do not say: threshold, sequential, logrank (docs/GATE.md)")      \
    X(ALPHA, 0, "alpha", "RATIO", "Chance to stop a stage that is good (0.05)")                    \
    X(BETA, 0, "beta", "RATIO", "Chance to pass a stage that is bad (0.1)")                        \
    X(FLEET, 0, "fleet", "N", "Devices the target has: to tell what each stage can detect")        \
    X(BASE_FAILURE, 0, "base-failure", "RATIO", "Share that fails without the release (0.005)")    \
    X(PER_HOUR, 0, "per-hour", "N", "Devices of a stage that complete in an hour")                 \
    X(ACCEPT_POWER, 0, "accept-power", NULL, "Start although no stage can see its rise")           \
    X(ACCEPT_COST, 0, "accept-cost", NULL,                                                         \
      "Start although a phone cannot hold all tasks; needs --reason")                              \
    X(ACCEPT_EMPTY, 0, "accept-empty", NULL, "Start although no known device is targeted")         \
    X(ACCEPT_KEYS, 0, "accept-keys", NULL,                                                         \
      "Serve a root that does not name the gateway's keys; needs --reason")                        \
    X(TRUST_UNPROVEN, 0, "trust-unproven", NULL,                                                   \
      "Gates count devices, too, that do not show who they are")                                   \
    X(ACCURACY, 0, "accuracy", "RATIO", "Share of answers that must be right")                     \
    X(WITHIN, 0, "within", "RATIO", "Accuracy that may be lost beside the cloud alone, as 0.01")   \
    X(SHARE, 0, "share", "RATIO", "Share of inputs that may go to the cloud")                      \
    X(IF_REVISION, 0, "if-revision", "N", "Only when the rollout still has this revision")         \
    X(SEGMENT, 0, "segment", "TEXT", "As the rollout's quarantine names it")                       \
    X(TASK, 0, "task", "TASK", "The task to explain, or to show alone")                            \
    X(STATE, 0, "state", "STATE", "Only rollouts in this state, as running or paused")             \
    X(NEWEST, 0, "newest", NULL, "The newest alone, of those the other options leave")             \
    X(AFTER, 0, "after", "KEY", "Continue behind this key")                                        \
    X(NAME, 0, "name", "NAME", "Whose the token is")                                               \
    X(ROLE, 0, "role", "ROLE",                                                                     \
      "viewer, releaser, approver, admin; enrol: as device enroll-token does")                     \
    X(OWNER, 0, "owner", "PERSON", "Whose token it is, when that is not its name")                 \
    X(SCOPES, 0, "scopes", "LIST", "Scenarios the token may touch, as in shop,ads-* (all)")        \
    X(EVERY_TENANT, 0, "every-tenant", NULL, "The token acts in any tenant")                       \
    X(USES, 0, "uses", "N",                                                                        \
      "Devices that may enrol with the token (0, or without it, any number)")                      \
    X(FOLLOW, 'f', "follow", NULL, "Stay and show what is added")                                  \
    X(HEAD, 0, "head", "SEQ:HASH", "An entry noted earlier, which must still be so")               \
    X(TAG, 0, "tag", "TAG", "Version out of git: v1.2.0, or BRANCH/v1.2.0")                        \
    X(BRANCH, 0, "branch", "NAME", "With --tag: the task, when several branches have the commit")  \
    X(SCENARIO, 0, "scenario", "NAME", "With --tag: instead of the repository's name")             \
    X(FOLDER, 0, "folder", "PATH", "With --tag: where task.json lies in the repository")           \
    X(DRY_RUN, 0, "dry-run", NULL,                                                                 \
      "Show what would be done, and whether it would be refused; change nothing")                  \
    X(USER, 0, "user", "NAME", "Whose a device is: exclusive files of users go by it")             \
    X(REGISTERED, 0, "registered", NULL, "The gateway must know exactly this version")             \
    X(FROM, 0, "from", "PATH", "Records to learn from: a file of lines, or a folder of such")      \
    X(NO_OPEN, 0, "no-open", NULL, "Print the link, start no browser")                             \
    X(SIZE, 0, "size", "BYTES", "Of the dictionary (32768)")                                       \
    X(SIMULATE, 0, "simulate", NULL,                                                               \
      "Play the plan on virtual devices: how long stages take, what a bad release reaches")        \
    X(DIR, 0, "dir", "DIR",                                                                        \
      "With --simulate: devices like those of this data folder of a gateway that is not running")  \
    X(POPULATION, 0, "population", "FILE", "With --simulate: devices of this population file")

enum cli_option {
#define CLI_OPTION_ENUM(name, key, text, argument, doc) CLI_OPTION_##name,
    CLI_OPTION_MAP(CLI_OPTION_ENUM)
#undef CLI_OPTION_ENUM
        CLI_OPTION_COUNT
};

// A set of options: there are more than 64.
#define CLI_BIT(name) ((unsigned __int128)1 << CLI_OPTION_##name)
_Static_assert(CLI_OPTION_COUNT <= 128, "a bit for each");
// What every command that talks to a gateway takes.
#define CLI_BITS_GATEWAY                                                                           \
    (CLI_BIT(GATEWAY) | CLI_BIT(TENANT) | CLI_BIT(CA) | CLI_BIT(INSECURE) | CLI_BIT(TOKEN) |       \
     CLI_BIT(FORMAT))

struct cli {
    const char *values[CLI_OPTION_COUNT]; // NULL: not given; "" for an option without argument
    const char *args[CLI_ARGS_MAX];
    int arg_count;
    bool json; // -o json
};

struct cli_command {
    const char *group;
    const char *name;
    const char *arguments; // "TASK", for the usage line
    const char *summary;
    const char *examples; // indented lines
    unsigned __int128 options;
    int args_min;
    int args_max;
    enum cli_exit (*run)(struct cli *cli);
};

// What an option is for in this command, where that is not what its own text says; else NULL.
const char *cli_option_doc(const struct cli_command *command, enum cli_option option);

extern const struct cli_command cli_commands[];
extern const unsigned cli_command_count;

// Prints "walle: text" on standard error and returns `code`.
enum cli_exit cli_fail(enum cli_exit code, const char *format, ...) BASE_PRINTF(2, 3);
// What it said last; empty: nothing. Valid until it is called again.
const char *cli_why(void);

bool cli_given(const struct cli *cli, enum cli_option option);
// --reason, with something in it?
bool cli_gives_reason(const struct cli *cli);
// ... for what is not done without one: a usage error, said on standard error.
enum cli_exit cli_check_reason(const struct cli *cli);
const char *cli_option_name(enum cli_option option);
// Value of a numeric option, `fallback` when it was not given. A bad number is a usage error, said
// on standard error.
enum cli_exit cli_option_u64(const struct cli *cli, enum cli_option option, uint64_t fallback,
                             uint64_t max, uint64_t *out_value);
// ... of an option that may not be everything from 0 on.
struct cli_range {
    uint64_t least;
    uint64_t most;
    uint64_t fallback; // may be outside
    const char *of;    // what `most` is the number of, as "root keys"; NULL: a limit
};
enum cli_exit cli_option_range(const struct cli *cli, enum cli_option option,
                               const struct cli_range *range, uint64_t *out_value);
enum cli_exit cli_option_real(const struct cli *cli, enum cli_option option, double fallback,
                              double max, double *out_value);

// May the option be given more than once? Its value is then all of them, one a line.
bool cli_option_repeats(enum cli_option option);

// Commands, by file.

// ---- What runs the commands
#define CLI_COMMAND_DECLARE(group, name, arguments, summary, examples, options, least, most, run)  \
    enum cli_exit run(struct cli *cli);
CLI_COMMAND_MAP(CLI_COMMAND_DECLARE)
#undef CLI_COMMAND_DECLARE

#endif
