// The commands of `walle`: one row each, and all that the program knows of them. From it come the
// table that cli_main.c searches and the declarations of what runs a command. The words, the
// arguments, what it does, examples, the options as a bit set, how many arguments at least and at
// most, and the function.
#ifndef CLI_COMMAND_MAP_H
#define CLI_COMMAND_MAP_H

// clang-format off
#define CLI_COMMAND_MAP(X) \
    X("key", "new", "", "Draw an Ed25519 key pair for signing releases.", \
     "  walle key new --out release.key     also writes release.key.pub and prints the public key", \
     CLI_BIT(OUT) | CLI_BIT(FORMAT), 0, 0, cli_key_new) \
    X("root", "init", "", \
     "Make a fleet's first root: who may sign what. Every --key is a root key and signs.", \
     "  walle root init --out root.1 --key a.key --key b.key --member c.key.pub --release " \
     "ci.key.pub\n" \
     "  walle root init --out root.1 --key a.key --release a.key.pub --release b.key.pub --wide 2", \
     ROOT_BITS, 0, 0, cli_root_init) \
    X("root", "rotate", "FILE", \
     "Make the successor of a root: the same but for what is given here. Old and new root keys " \
     "sign.", \
     "  walle root rotate root.1 --out root.2 --key a.key --key b.key --release new-ci.key.pub", \
     ROOT_BITS, 1, 1, cli_root_rotate) \
    X("root", "sign", "FILE", "Add signatures to a root, where the keys are.", \
     "  walle root sign root.2 --key c.key\n" \
     "  walle root sign root.2 --key old.key --from root.1   with a key of the root before it", \
     CLI_BIT(KEY) | CLI_BIT(FROM) | CLI_BIT(FORMAT), 1, 1, cli_root_sign) \
    X("root", "show", "[FILE]", "Show a root: roles, keys, thresholds, who signed.", \
     "  walle root show root.2\n" \
     "  walle root show --served --out root.2      the one that the gateway serves, kept as a file", \
     CLI_BITS_GATEWAY | CLI_BIT(SERVED) | CLI_BIT(OUT), 0, 1, cli_root_show) \
    X("root", "push", "FILE", "Hand a root to the gateway, which serves it to devices.", \
     "  walle root push root.2\n" \
     "  walle root push root.2 --accept-keys --reason 'its keys come here tonight'", \
     CLI_BITS_GATEWAY | CLI_BIT(ACCEPT_KEYS) | CLI_BIT(REASON), 1, 1, cli_root_push) \
    X("release", "kill", "SHA256", \
     "Put a version on the kill list: devices stop and remove it at once.", \
     "  walle release kill 1174d64d... --reason 'leaks addresses'\n" \
     "SHA256 is the version's manifest, or as much of its beginning as is unique, 4 digits at " \
     "least:\n" \
     "walle task get TASK lists them. Every open rollout of the\n" \
     "version goes back, and none may be started; devices run what else is meant for them, or\n" \
     "nothing, and hear of it at their next check-in, through a hint at once. A completed rollout\n" \
     "stays completed, and is a baseline again when the kill is lifted; to end that one for good,\n" \
     "too: walle rollout kill ID.\n" \
     "The way back: walle release unkill SHA256. walle release kills lists what is killed.", \
     COMMAND_BITS, 1, 1, cli_release_kill) \
    X("release", "kills", "", \
     "List the killed versions: who killed them, when and why, and the rollouts that ended so.", \
     "  walle release kills\n  walle release kills -o json", \
     CLI_BITS_GATEWAY | CLI_BIT(LIMIT) | CLI_BIT(AFTER), 0, 0, cli_release_kills) \
    X("release", "unkill", "SHA256", \
     "Take a version off the kill list: it may be released again, and where a rollout of it had " \
     "completed it is a baseline again, to which devices go back.", \
     "  walle release unkill 1174d64d... --reason 'the wrong hash'\n" \
     "No rollout goes on by itself: one that the kill ended stays as it is. To bring the version\n" \
     "to devices again start a new one: walle rollout start TASK.", \
     COMMAND_BITS, 1, 1, cli_release_unkill) \
    X("task", "init", "DIR", "Start a task: a folder with task.json and a script that runs.", \
     "  walle task init hello\n" \
     "  git init -q -b page-view shop && walle task init shop     # branch and tag will name it", \
     CLI_BIT(FORMAT), 1, 1, cli_task_init) \
    X("task", "build", "DIR", \
     "Compile a task to bytecode, name every file by its SHA-256, write the manifest; then try it " \
     "on the samples of its task.json as a device runs it: what fails there is not built.", \
     "  walle task build conf/tasks/ipv --out build/ipv\n" \
     "  walle task build hello --out build/hello --version 1.2.0\n" \
     "  walle task build shop.git --tag page-view/v1.2.0 --out build/page-view", \
     CLI_BIT(OUT) | CLI_BIT(VERSION) | CLI_BIT(NO_DRY_RUN) | CLI_BIT(FORMAT) | GIT_BITS, 1, 1, cli_task_build) \
    X("task", "run", "DIR", \
     "Run a task's folder as it lies, or a build, in the device's own script VM, here; exits 1 " \
     "when " \
     "the script fails, and shows where.", \
     "  walle task run conf/tasks/ipv\n" \
     "  walle task run build/ipv\n" \
     "  walle task run build/ipv --device 0123456789abcdef --attrs phone.json --input log.json\n" \
     "  walle task run build/taste --user ana        with her exclusive files\n" \
     "  walle task run build/ipv_events --events log.jsonl      a run for each match of a trigger\n" \
     "  walle task run conf/tasks/items --give camera=frame.jpg      which walle.blob gives\n" \
     "  walle task run hello --watch                    again at each save\n" \
     "  walle task run conf/tasks/ipv --samples         what it takes on the samples of task.json\n" \
     "  walle task run hello --store hello.store        walle.store as the run before left it\n" \
     "  walle task run build/ask --gateway http://127.0.0.1:8000   which answers walle.cloud", \
     CLI_BITS_GATEWAY | CLI_BIT(DEVICE) | CLI_BIT(USER) | CLI_BIT(ATTRS) | CLI_BIT(INPUT) | CLI_BIT(GIVE) | \
         CLI_BIT(REPEAT) | CLI_BIT(EVENTS) | CLI_BIT(STORE) | CLI_BIT(SAMPLES) | CLI_BIT(WATCH), \
     1, 1, cli_task_run) \
    X("task", "stubs", "DIR", \
     "Write stub files of what a script may call (walle.np, walle.cv, ...), for editors.", \
     "  walle task stubs hello          hello/walle/np/__init__.pyi and the others", \
     CLI_BIT(FORMAT), 1, 1, cli_task_stubs) \
    X("task", "push", "BUILD", \
     "Upload what the gateway's store lacks, then register the version; with --tag, of a " \
     "repository: scenario = repository, task = branch, version = tag.", \
     "  walle task push build/ipv --gateway https://127.0.0.1:8443 --ca gateway/cert.pem\n" \
     "  walle task push shop --tag page-view/v1.2.0 --dry-run\n" \
     "  walle task push /srv/git/shop.git --tag v1.2.0 --branch page-view", \
     CLI_BITS_GATEWAY | GIT_BITS | CLI_BIT(DRY_RUN) | CLI_BIT(NO_DRY_RUN), 1, 1, cli_task_push) \
    X("task", "verify", "BUILD", \
     "Check a build: content against names, scripts for this runtime, models for the engine.", \
     "  walle task verify build/ipv\n" \
     "  walle task verify shop.git --tag page-view/v1.2.0 --registered", \
     CLI_BITS_GATEWAY | GIT_BITS | CLI_BIT(REGISTERED), 1, 1, cli_task_verify) \
    X("task", "list", "", "List tasks.", "  walle task list -o json", \
     CLI_BITS_GATEWAY | CLI_BIT(LIMIT) | CLI_BIT(AFTER), 0, 0, cli_task_list) \
    X("task", "get", "TASK", "Show a task and its versions.", "  walle task get ipv", \
     CLI_BITS_GATEWAY, 1, 1, cli_task_get) \
    X("task", "sign", "FILE", \
     "Add signatures to a drafted rollout (rollout start --draft), where the keys are.", \
     "  walle task sign ipv.json --key ben.key", CLI_BIT(KEY) | CLI_BIT(FORMAT), 1, 1, \
     cli_task_sign) \
    X("rollout", "plan", "[TASK]", \
     "Show the stages a rollout would go through; with --gateway also whom it would reach there, " \
     "and of a TASK's version what a phone would have to hold with it.", \
     "  walle rollout plan\n  walle rollout plan --stages stages.json --min-sample 500\n" \
     "  walle rollout plan --rule logrank --max-rise 0.005 --fleet 100000      what each stage can " \
     "detect\n" \
     "  walle rollout plan --gateway https://127.0.0.1:8443 --target 'app_version >= 9.2'\n" \
     "  walle rollout plan shop/page-view --version 1.2.0 --gateway https://127.0.0.1:8443\n" \
     "  walle rollout plan shop/page-view --build build --simulate --dir gateway      how long stages take", \
     CLI_BITS_GATEWAY | PLAN_BITS | VERSION_BITS | CLI_BIT(SIMULATE) | CLI_BIT(DIR) | \
         CLI_BIT(POPULATION), 0, 1, cli_rollout_plan) \
    X("rollout", "start", "TASK", \
     "Sign one statement a stage, create the rollout and start it; or start one that was made with " \
     "--no-start, by its ID. With --build a simulate stage is played here, by walle-fleet-sim; " \
     "with " \
     "--version or --manifest it waits for evidence, or is given it with --evidence.", \
     "  walle rollout start shop/page-view --version 1.2.0 --key release.key --watch\n" \
     "  walle rollout start ipv --build build/ipv --key release.key\n" \
     "  walle rollout start ipv --manifest SHA256 --key release.key --stages stages.json --watch\n" \
     "  walle rollout start ipv --version 1.2.0 --key release.key --floor 1.0.0\n" \
     "  walle rollout start ipv --version 1.2.0 --key release.key --dry-run    what it would do " \
     "and cost,\n" \
     "      and what would refuse it\n" \
     "  walle rollout start 00c0ffee00c0ffee      one that was made with --no-start\n" \
     "  walle rollout start 00c0ffee00c0ffee --build build/ipv --key release.key      with its " \
     "simulation", \
     CLI_BITS_GATEWAY | PLAN_BITS | VERSION_BITS | CLI_BIT(DRY_RUN) | CLI_BIT(ACCEPT_COST) | \
         CLI_BIT(KEY) | CLI_BIT(PRIORITY) | CLI_BIT(FLOOR) | CLI_BIT(COUNTER) | \
         CLI_BIT(EXPERIMENT) | CLI_BIT(ARM_FROM) | CLI_BIT(ARM_TO) | CLI_BIT(EXPIRES) | \
         CLI_BIT(NO_START) | CLI_BIT(ACCEPT_POWER) | CLI_BIT(WATCH) | CLI_BIT(UNTIL) | \
         CLI_BIT(TIMEOUT) | CLI_BIT(REASON) | CLI_BIT(BY) | CLI_BIT(DRAFT) | \
         CLI_BIT(TRUST_UNPROVEN) | CLI_BIT(ACCEPT_EMPTY) | CLI_BIT(EVIDENCE), \
     1, 1, cli_rollout_start) \
    X("rollout", "submit", "FILE", "Create and start a rollout that was drafted and signed.", \
     "  walle rollout submit ipv.json --watch\n" \
     "made by:\n" \
     "  walle rollout start ipv --build build/ipv --key ana.key --draft ipv.json\n" \
     "  walle task sign ipv.json --key ben.key", \
     CLI_BITS_GATEWAY | CLI_BIT(NO_START) | CLI_BIT(WATCH) | CLI_BIT(UNTIL) | CLI_BIT(TIMEOUT) | \
         CLI_BIT(REASON) | CLI_BIT(BY) | CLI_BIT(ACCEPT_COST) | CLI_BIT(ACCEPT_EMPTY) | \
         CLI_BIT(EVIDENCE), \
     1, 1, cli_rollout_submit) \
    X("rollout", "status", "ID", "Show a rollout; exits 1 when it failed, so that scripts can tell.", \
     "  walle rollout status 00c0ffee00c0ffee      or only: 00c0, as far as it is unique\n  walle " \
     "rollout status 00c0ffee00c0ffee --watch\n" \
     "  walle rollout status 00c0ffee00c0ffee --watch --until completed", \
     CLI_BITS_GATEWAY | CLI_BIT(WATCH) | CLI_BIT(UNTIL) | CLI_BIT(TIMEOUT), 1, 1, \
     cli_rollout_status) \
    X("rollout", "explain", "ID", \
     "Say where a rollout is, what its gate asks for, what is missing, and what to do.", \
     "  walle rollout explain 00c0ffee00c0ffee\n" \
     "  walle rollout explain 00c0ffee00c0ffee --build build/ipv     failures with their lines", \
     CLI_BITS_GATEWAY | CLI_BIT(BUILD), 1, 1, cli_rollout_explain) \
    X("rollout", "list", "", "List rollouts, the newest first.", \
     "  walle rollout list --limit 20\n  walle rollout list --state running --task shop/page-view\n" \
     "  walle rollout list --newest --task shop/page-view", \
     CLI_BITS_GATEWAY | CLI_BIT(LIMIT) | CLI_BIT(AFTER) | CLI_BIT(STATE) | CLI_BIT(TASK) | \
         CLI_BIT(NEWEST), \
     0, 0, cli_rollout_list) \
    X("rollout", "log", "ID", "Show every decision and command of a rollout, with its reason.", \
     "  walle rollout log 00c0ffee00c0ffee", CLI_BITS_GATEWAY | CLI_BIT(LIMIT) | CLI_BIT(AFTER), 1, \
     1, cli_rollout_log) \
    X("rollout", "pause", "ID", "Make no new offers; devices keep what they run.", \
     "  walle rollout pause 00c0ffee00c0ffee --reason 'support asks'", COMMAND_BITS, 1, 1, \
     cli_rollout_pause) \
    X("rollout", "resume", "ID", \
     "Go on after a pause. With --accept-risk past a stage that failed: the next stage opens at " \
     "once, the failed one is not judged again; behind the last one the version is everybody's.", \
     "  walle rollout resume 00c0ffee00c0ffee\n" \
     "  walle rollout resume 00c0ffee00c0ffee --accept-risk --reason 'known bad batch'", \
     COMMAND_BITS | CLI_BIT(ACCEPT_RISK), 1, 1, cli_rollout_resume) \
    X("rollout", "promote", "ID", \
     "Open the next stage now: dwell and sample are waived. Of a guard: it is over.", \
     "  walle rollout promote 00c0ffee00c0ffee --reason 'hotfix'", COMMAND_BITS, 1, 1, \
     cli_rollout_promote) \
    X("rollout", "abort", "ID", "Stop, and take every updated device back.", \
     "  walle rollout abort 00c0ffee00c0ffee --reason 'wrong model'", COMMAND_BITS, 1, 1, \
     cli_rollout_abort) \
    X("rollout", "approve", "ID", "Open the stage that waits; not by who made the rollout.", \
     "  walle rollout approve 00c0ffee00c0ffee --by eve", COMMAND_BITS, 1, 1, cli_rollout_approve) \
    X("rollout", "undo", "ID", \
     "Take a completed rollout back: its devices run what else is meant for them.", \
     "  walle rollout undo 00c0ffee00c0ffee --reason 'sales fell'", COMMAND_BITS, 1, 1, \
     cli_rollout_undo) \
    X("rollout", "kill", "ID", \
     "Stop the version everywhere, whatever the state, until release unkill.", \
     "  walle rollout kill 00c0ffee00c0ffee --reason 'leaks data'\n" \
     "  walle release kills                                      # its manifest, who, when, why\n" \
     "  walle release unkill 1174d64d... --reason 'it does not'  # the way back\n" \
     "Devices stop and remove the version, in whatever rollout they got it, and run what else is\n" \
     "meant for them, or nothing. The version is on the kill list, as by release kill: its other\n" \
     "open rollouts go back too, and none may be started until walle release unkill. That lets it\n" \
     "be released again; this rollout is over: it does not go on by itself, nor is it a baseline\n" \
     "again if it was complete, which other completed rollouts of the version are, and all of " \
     "them\n" \
     "after a release kill. What was killed before stays so. To go back in this rollout alone:\n" \
     "walle rollout abort, or undo when it is completed.", \
     COMMAND_BITS, 1, 1, cli_rollout_kill) \
    X("rollout", "lift", "ID", "Let a segment in again that was put in quarantine.", \
     "  walle rollout lift 00c0ffee00c0ffee --segment 'model=SM-1 os=android app_version=9.2'", \
     CLI_BITS_GATEWAY | CLI_BIT(REASON) | CLI_BIT(BY) | CLI_BIT(SEGMENT), 1, 1, cli_rollout_lift) \
    X("rollout", "replay", "ID", \
     "Find every decision again from the log; with other limits, where they would differ.\n" \
     "Exits 1 when the unchanged log replays otherwise.", \
     "  walle rollout replay 00c0ffee00c0ffee\n" \
     "  walle rollout replay 00c0ffee00c0ffee --threshold 0.01 --min-sample 50\n" \
     "  walle rollout replay 00c0ffee00c0ffee --max-rise 0.005 --alpha 0.01", \
     CLI_BITS_GATEWAY | TEST_BITS | CLI_BIT(THRESHOLD) | CLI_BIT(MIN_SAMPLE) | CLI_BIT(MIN_DWELL), \
     1, 1, cli_rollout_replay) \
    X("rollout", "simulation", "ID", \
     "Post the result of the simulate stage: signed evidence; or numbers, which count once another " \
     "person approved them.", \
     "  walle rollout simulation 00c0ffee00c0ffee --evidence evidence.json\n" \
     "  walle rollout simulation 00c0ffee00c0ffee --override --completed 200 --failed 0 \\\n" \
     "      --reason 'run on the bench'        then somebody else: walle rollout approve ID", \
     CLI_BITS_GATEWAY | CLI_BIT(REASON) | CLI_BIT(BY) | CLI_BIT(EVIDENCE) | CLI_BIT(OVERRIDE) | \
         CLI_BIT(COMPLETED) | CLI_BIT(FAILED), \
     1, 1, cli_rollout_simulation) \
    X("device", "get", "ID", "Show a device: attributes, last seen, outcomes by task.", \
     "  walle device get 0123456789abcdef", CLI_BITS_GATEWAY, 1, 1, cli_device_get) \
    X("device", "why", "ID", \
     "Explain a device: what it should run and why, what it went through, how it failed.", \
     "  walle device why 0123456789abcdef --task ipv\n" \
     "  walle device why 0123456789abcdef --task ipv --build build/ipv", \
     CLI_BITS_GATEWAY | CLI_BIT(TASK) | CLI_BIT(BUILD), 1, 1, \
     cli_device_why) \
    X("device", "list", "", "List devices, ordered by id.", \
     "  walle device list --limit 10 --after 0123456789abcdef", \
     CLI_BITS_GATEWAY | CLI_BIT(LIMIT) | CLI_BIT(AFTER), 0, 0, cli_device_list) \
    X("device", "count", "[ATTRIBUTE]", \
     "Count devices by an attribute's values: os, model, app_version, os_version, region, channel; " \
     "without ATTRIBUTE by each of them.", \
     "  walle device count app_version", CLI_BITS_GATEWAY, 0, 1, cli_device_count) \
    X("device", "bind", "ID", "Say whose a device is: it gets that user's exclusive files.", \
     "  walle device bind 0123456789abcdef --user ana", CLI_BITS_GATEWAY | CLI_BIT(USER), 1, 1, \
     cli_device_bind) \
    X("device", "unbind", "ID", "The device is nobody's: new versions bring no user's files.", \
     "  walle device unbind 0123456789abcdef", CLI_BITS_GATEWAY, 1, 1, cli_device_unbind) \
    X("device", "enroll-token", "", \
     "Make a token devices enrol with (walle-device --enroll-token); its secret is shown once.", \
     "  umask 077; walle device enroll-token --name factory-7 --uses 1000 > factory-7.token", \
     CLI_BITS_GATEWAY | CLI_BIT(NAME) | CLI_BIT(USES) | CLI_BIT(EXPIRES), 0, 0, \
     cli_device_enroll_token) \
    X("device", "revoke", "ID", "Refuse a device from now on, and end its hint streams.", \
     "  walle device revoke 0123456789abcdef", CLI_BITS_GATEWAY, 1, 1, cli_device_revoke) \
    X("device", "reset", "ID", "Forget how a device is known, so that it can enrol anew.", \
     "  walle device reset 0123456789abcdef", CLI_BITS_GATEWAY, 1, 1, cli_device_reset) \
    X("token", "new", "", "Make an operator's token; its secret is shown once, on standard output.", \
     "  walle token new --name ana --role releaser --scopes shop,ads-* --expires 90\n" \
     "  umask 077; walle token new --name ci --owner ana --role releaser --scopes shop > ci.token", \
     CLI_BITS_GATEWAY | CLI_BIT(NAME) | CLI_BIT(OWNER) | CLI_BIT(ROLE) | CLI_BIT(SCOPES) | \
         CLI_BIT(EXPIRES) | CLI_BIT(EVERY_TENANT), \
     0, 0, cli_token_new) \
    X("token", "list", "", "List tokens: who, what for, until when, when last used.", \
     "  walle token list", CLI_BITS_GATEWAY | CLI_BIT(LIMIT) | CLI_BIT(AFTER), 0, 0, \
     cli_token_list) \
    X("token", "revoke", "ID", "Make a token worthless, at once.", \
     "  walle token revoke 0123456789abcdef", CLI_BITS_GATEWAY, 1, 1, cli_token_revoke) \
    X("tenant", "new", "NAME", "Make a tenant: tasks, rollouts, devices and tokens of its own.", \
     "  walle tenant new acme\n  walle token new --tenant acme --name bob --role admin", \
     CLI_BITS_GATEWAY, 1, 1, cli_tenant_new) \
    X("tenant", "list", "", "List the tenants you may act in.", "  walle tenant list", \
     CLI_BITS_GATEWAY, 0, 0, cli_tenant_list) \
    X("clock", "show", "", "Show whether the gateway believes its wall clock.", "  walle clock show", \
     CLI_BITS_GATEWAY, 0, 0, cli_clock_show) \
    X("clock", "accept", "", \
     "Say that the gateway's wall clock is right, after a jump: it signs and judges by it again.", \
     "  walle clock accept --reason 'was off for a month'", \
     CLI_BITS_GATEWAY | CLI_BIT(REASON) | CLI_BIT(BY), 0, 0, cli_clock_accept) \
    X("audit", "tail", "", "Show the latest entries of the audit log; -f stays and follows.", \
     "  walle audit tail --limit 50\n  walle audit tail -f", \
     CLI_BITS_GATEWAY | CLI_BIT(LIMIT) | CLI_BIT(AFTER) | CLI_BIT(FOLLOW) | CLI_BIT(TIMEOUT), 0, 0, \
     cli_audit_tail) \
    X("audit", "verify", "", \
     "Follow the audit log's chain of hashes from its beginning; exits 1 where it breaks.", \
     "  walle audit verify\n" \
     "  walle audit verify --head 1042:5f1c...     the end you noted last time", \
     CLI_BITS_GATEWAY | CLI_BIT(HEAD), 0, 0, cli_audit_verify) \
    X("tunnel", "tail", "", \
     "Show the oldest records devices sent; -f stays and shows what comes from now on.", \
     "  walle tunnel tail -f --task shop/page-view\n  walle tunnel tail --limit 100 -o json\n" \
     "  walle tunnel tail --after 0000000000001a40.0      # behind the place that the last one " \
     "named", \
     CLI_BITS_GATEWAY | CLI_BIT(TASK) | CLI_BIT(DEVICE) | CLI_BIT(LIMIT) | CLI_BIT(AFTER) | \
         CLI_BIT(FOLLOW) | CLI_BIT(TIMEOUT), \
     0, 0, cli_tunnel_tail) \
    X("tunnel", "export", "", \
     "Write records to a file, as JSON lines, CSV or OTLP; the next export goes on behind them.", \
     "  walle tunnel export --out records.jsonl\n" \
     "  walle tunnel export --task shop/page-view --out views.csv\n" \
     "  walle tunnel export --out logs.otlp.jsonl          # for an OpenTelemetry collector\n" \
     "  walle tunnel export --out - | head -n 1            # standard output; no place is kept", \
     CLI_BITS_GATEWAY | CLI_BIT(TASK) | CLI_BIT(DEVICE) | CLI_BIT(AFTER) | CLI_BIT(OUT), 0, 0, \
     cli_tunnel_export) \
    X("tunnel", "stat", "", \
     "Show the tunnel's log, uploads with what of them was refused last, and counters.", \
     "  walle tunnel stat", CLI_BITS_GATEWAY, 0, 0, cli_tunnel_stat) \
    X("tunnel", "train", "", \
     "Train a compression dictionary for the tunnel; release it as the file tunnel.dict of a task.", \
     "  walle tunnel train --from export.jsonl --out shop/tunnel.dict\n" \
     "  walle tunnel train --from exports/ --task shop/page-view --out tunnel.dict", \
     CLI_BIT(FROM) | CLI_BIT(OUT) | CLI_BIT(SIZE) | CLI_BIT(TASK) | CLI_BIT(FORMAT), 0, 0, \
     cli_tunnel_train) \
    X("fallback", "threshold", "SCORES", \
     "Choose from which confidence on a device's own result stands, and what goes to the cloud.", \
     "  walle fallback threshold scores.csv --within 0.01 --out threshold.html\n" \
     "  walle fallback threshold scores.csv --accuracy 0.95\n" \
     "  walle fallback threshold scores.csv --share 0.15 -o json\n" \
     "SCORES is a file of comma-separated values, one labelled input a line: confidence (0 to 1)\n" \
     "and device_right,cloud_right (1 or 0), or device,cloud,label (what both said, and the truth).\n" \
     "Exits 1 when the scores do not show that any threshold does what is asked.", \
     CLI_BIT(ACCURACY) | CLI_BIT(WITHIN) | CLI_BIT(SHARE) | CLI_BIT(ALPHA) | CLI_BIT(OUT) | \
         CLI_BIT(FORMAT), \
     1, 1, cli_fallback_threshold) \
    X("model", "list", "", \
     "List the models that are served: versions loaded and in the store, and releases.", \
     "  walle model list\n  walle model list -o json", CLI_BITS_GATEWAY, 0, 0, cli_model_list) \
    X("model", "push", "NAME FILE", \
     "Upload a version of a model. It is loaded and run once before it is kept.", \
     "  walle model push din din.onnx --version 3\n" \
     "It answers who names it; walle model release makes it the one that serves.", \
     CLI_BITS_GATEWAY | CLI_BIT(VERSION), 2, 2, cli_model_push) \
    X("model", "remove", "NAME", "Take a version out of the store; not the one that serves.", \
     "  walle model remove din --version 2", CLI_BITS_GATEWAY | CLI_BIT(VERSION), 1, 1, \
     cli_model_remove) \
    X("model", "release", "NAME", \
     "Release a version in stages: shadows, then a growing share of the callers, each stage judged.", \
     "  walle model release din --version 3 --watch\n" \
     "  walle model release din --version 3 --stages stages.json --reason 'trained on November'\n" \
     "FILE is a list of stages, or an object with \"stages\" and \"tolerance\":\n" \
     "  [{\"shadow\": 0.1, \"min_calls\": 500}, {\"share\": 0.5, \"on_fail\": \"hold\"}]\n" \
     "docs/INFERENCE.md says what a stage may have.\n" \
     "Exits with --watch 0 when the version serves, 1 when the release went back, 6 when --timeout\n" \
     "passed before; without it 0 when the release runs.", \
     CLI_BITS_GATEWAY | CLI_BIT(VERSION) | CLI_BIT(STAGES) | CLI_BIT(REASON) | CLI_BIT(WATCH) | \
         CLI_BIT(TIMEOUT), \
     1, 1, cli_model_release) \
    X("model", "status", "NAME", \
     "Show a model's release: its stage, what was seen, and what happened; exits 1 when it went back.", \
     "  walle model status din\n  walle model status din --watch\n" \
     "Exits 0 also while the release runs or is paused; with --watch when it is over, or 6 when\n" \
     "--timeout passed before.", \
     CLI_BITS_GATEWAY | CLI_BIT(WATCH) | CLI_BIT(TIMEOUT), 1, 1, cli_model_status) \
    X("model", "pause", "NAME", "Pause a release: the version that served answers every call.", \
     "  walle model pause din --reason 'look at the logs first'", \
     CLI_BITS_GATEWAY | CLI_BIT(REASON), 1, 1, cli_model_pause) \
    X("model", "resume", "NAME", "Go on with a paused release; its stage is measured anew.", \
     "  walle model resume din\n  walle model resume din --accept-risk --reason 'a known fault'", \
     CLI_BITS_GATEWAY | CLI_BIT(REASON) | CLI_BIT(ACCEPT_RISK), 1, 1, cli_model_resume) \
    X("model", "promote", "NAME", "Open a release's next stage now; behind the last one it serves.", \
     "  walle model promote din", CLI_BITS_GATEWAY | CLI_BIT(REASON), 1, 1, cli_model_promote) \
    X("model", "abort", "NAME", "End a release: the version that served answers every call again.", \
     "  walle model abort din --reason 'wrong labels'", CLI_BITS_GATEWAY | CLI_BIT(REASON), 1, 1, \
     cli_model_abort) \
    X("console", "open", "", \
     "Print a link by which a browser logs in at the console, and open it where there is a screen.", \
     "  walle console open       or only: walle console\n" \
     "  walle console open --gateway https://fleet.example:8443 --no-open", \
     CLI_BITS_GATEWAY | CLI_BIT(NO_OPEN), 0, 0, cli_console_open) \
    X("completion", "bash", "", "Print completion for bash.", \
     "  walle completion bash > /etc/bash_completion.d/walle", 0, 0, 0, cli_completion_bash) \
    X("completion", "zsh", "", "Print completion for zsh.", "  walle completion zsh >> ~/.zshrc", 0, \
     0, 0, cli_completion_zsh) \
    X("completion", "fish", "", "Print completion for fish.", "  walle completion fish | source", 0, \
     0, 0, cli_completion_fish)
// clang-format on

#endif
