// Checks of options that look further than at one word: at the population, at the root and at
// files. fleet_options.c calls them when all words were read, on the main thread. What they refuse
// is refused before anything starts, in words that name the option.
#include "command/option_checks.h"

#include "base/os/output_file.h"
#include "people/sim_local_file.h"
#include "signing/signing.h"
#include "wire/manifest.h"
#include "wire/trust/root.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Is one of these keys a release key of the task?
static bool may_release(const struct wire_root *root, const struct wire_delegation *delegation,
                        const struct signing_keys *keys)
{
    bool found = false;
    for (uint32_t i = 0; i < keys->count; i++) {
        uint8_t key[WIRE_PUBLIC_KEY_BYTES];
        signing_key_public(keys->keys[i], key);
        for (uint32_t k = 0; k < root->key_count; k++) {
            bool of_role = (delegation->role.keys >> k & 1u) != 0;
            found = found || (of_role && memcmp(root->keys[k], key, sizeof(key)) == 0);
        }
    }
    return found;
}

// A root that lets nobody release the task is refused when the version is loaded.
static enum base_status check_signer(const struct sim_options *options,
                                     const struct sim_words *words, struct base_str task,
                                     struct base_error *error)
{
    struct wire_verifier verifier = signing_verifier();
    struct signing_keys keys;
    struct wire_root root;
    struct base_error inner = {0};
    if (signing_keys_load(options->evidence_key, &keys, &inner) != BASE_OK) {
        return base_error_set(error, BASE_ERR_INVALID, "--evidence-key: %s", inner.text);
    }
    bool rooted = options->root_bytes > 0 &&
                  wire_root_open(options->root, options->root_bytes, &verifier, &root) == BASE_OK;
    const struct wire_delegation *delegation = rooted ? wire_root_delegation(&root, task) : NULL;
    bool known = delegation == NULL || may_release(&root, delegation, &keys);
    signing_keys_done(&keys);
    return known ? BASE_OK
                 : base_error_set(error, BASE_ERR_INVALID,
                                  "--evidence-key %.50s: no release key of %.40s in --root %.50s: "
                                  "gateways refuse what it signs",
                                  options->evidence_key, task.data, words->root);
}

// The version's task says which keys may release it. Whatever is wrong with the manifest is found
// when it is loaded.
static enum base_status check_key(const struct sim_options *options, const struct sim_words *words,
                                  struct base_error *error)
{
    struct base_buffer bytes;
    char task[WIRE_TASK_NAME_MAX + 1] = "";
    struct wire_manifest *manifest = malloc(sizeof(*manifest));
    if (manifest != NULL &&
        sim_local_read(options->manifest, WIRE_MANIFEST_BYTES_MAX, &bytes, NULL) == BASE_OK) {
        if (wire_manifest_parse(bytes.data, bytes.size, manifest) == BASE_OK) {
            (void)snprintf(task, sizeof(task), "%.*s", (int)manifest->task_name.size,
                           manifest->task_name.data);
        }
        base_buffer_done(&bytes);
    }
    free(manifest);
    return task[0] != '\0' ? check_signer(options, words, base_str_of(task), error) : BASE_OK;
}

enum base_status sim_check_evidence(const struct sim_options *options,
                                    const struct sim_words *words, struct base_error *error)
{
    if ((options->evidence[0] == '\0') != (options->evidence_key[0] == '\0')) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "--evidence FILE and --evidence-key FILE go together");
    }
    if (options->evidence[0] == '\0') {
        return BASE_OK;
    }
    if (access(options->evidence, F_OK) == 0) { // said before the run
        return base_error_set(error, BASE_ERR_EXISTS,
                              "--evidence: %.100s is there already: evidence is a new file",
                              options->evidence);
    }
    if (options->where.cond_count > 0 || options->bad.rule_count > 0 ||
        options->faults.rule_count > 0 || options->first_device > 0) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "--evidence is of the version as it is, on all that --target means: "
                              "neither --where, --first-device, --bad nor --fault goes with it");
    }
    return check_key(options, words, error);
}

enum base_status sim_check_junit(const struct sim_options *options, struct base_error *error)
{
    struct base_output_file file;
    struct base_error why = {.status = BASE_OK};
    struct stat about = {0};
    bool there = options->junit[0] != '\0' && lstat(options->junit, &about) == 0;
    // A pipe would tell its reader that this was all: what is wrong with one is said at the end.
    if (options->junit[0] == '\0' || (there && S_ISFIFO(about.st_mode))) {
        return BASE_OK;
    }
    enum base_status status = base_output_open(&file, options->junit, &why);
    if (status == BASE_OK) { // nothing is written, and what was there stays
        status = base_output_close(&file, BASE_ERR_CLOSED, &why);
        status = status == BASE_ERR_CLOSED ? BASE_OK : status;
    }
    if (status == BASE_OK && there && S_ISREG(about.st_mode) && unlink(options->junit) != 0) {
        status = base_error_set(&why, BASE_ERR_IO, "%.100s: %s", options->junit, strerror(errno));
    }
    return status == BASE_OK ? BASE_OK
                             : base_error_set(error, BASE_ERR_INVALID, "--junit %.140s", why.text);
}

enum base_status sim_check_somebody(const struct sim_options *options,
                                    const struct sim_words *words, struct base_error *error)
{
    const struct sim_population population = sim_options_population(options);
    bool where = options->where.cond_count > 0;
    if (sim_options_want(options, &population, sim_options_index(options, &population, 0))) {
        return BASE_OK;
    }
    return base_error_set(
        error, BASE_ERR_NOT_FOUND, "--%s: no virtual device is like this: %.100s%s%.100s",
        where ? "where" : "target", where ? words->where : "",
        where && options->target != NULL ? ", --target: " : "", options->target_text);
}

enum base_status sim_check_rules(const struct sim_options *options, const struct sim_words *words,
                                 struct base_error *error)
{
    for (uint32_t i = 0; i < options->bad.rule_count; i++) {
        if (!sim_options_meet(options, &options->bad.rules[i].predicate)) {
            return base_error_set(error, BASE_ERR_NOT_FOUND,
                                  "--bad: none of the %u virtual devices is like this: %.100s",
                                  options->devices, words->bad[i]);
        }
    }
    return BASE_OK;
}

enum base_status sim_check_faults(const struct sim_options *options, const struct sim_words *words,
                                  struct base_error *error)
{
    for (uint32_t i = 0; i < options->faults.rule_count; i++) {
        const struct sim_fault_rule *rule = &options->faults.rules[i];
        if (rule->picky && !sim_options_meet(options, &rule->where)) {
            return base_error_set(error, BASE_ERR_NOT_FOUND,
                                  "--fault: none of the %u virtual devices is like this: %.100s",
                                  options->devices, words->faults[i]);
        }
    }
    return BASE_OK;
}

enum base_status sim_check_virtual(struct sim_options *options, struct base_error *error)
{
    const struct {
        const char *name;
        bool given;
    } real[] = {
        {"--gateway", options->host[0] != '\0'},
        {"--gateway-tls", options->own_host[0] != '\0'},
        {"--dedicated", options->dedicated > 0},
        {"--hints", options->hints},
        {"--business", options->business_rate > 0},
        {"--enroll-token", options->enrol_token[0] != '\0'},
        {"--credentials", options->credentials[0] != '\0'},
        {"--metrics", options->metrics_address[0] != '\0'},
    };
    if (options->virtual_dir[0] == '\0' && options->network_links) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "--links network is for virtual time (--virtual)");
    }
    if (options->virtual_dir[0] == '\0' && options->byte_devices > 0) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "--byte-devices is for virtual time (--virtual)");
    }
    if (options->virtual_dir[0] == '\0' && options->reinstall_ppm > 0) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "--reinstalls is for virtual time (--virtual)");
    }
    if (options->until_rest && (options->virtual_dir[0] == '\0' || options->faults.until_s == 0)) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "--until-rest is for virtual time (--virtual) and faults that end "
                              "(--faults-until)");
    }
    bool restarts = sim_fault_plan_has(&options->faults, SIM_FAULT_RESTART);
    if (options->virtual_dir[0] == '\0' && restarts) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "--fault gateway:restart is for virtual time (--virtual)");
    }
    if (options->virtual_dir[0] == '\0') {
        const char *name = options->strangers                  ? "--strangers"
                           : options->own_signatures           ? "--own-signatures"
                           : options->traced || options->tells ? "--trace"
                                                               : "--act";
        return options->strangers || options->own_signatures || options->traced || options->tells ||
                       options->acted
                   ? base_error_set(error, BASE_ERR_INVALID, "%s is for virtual time (--virtual)",
                                    name)
                   : BASE_OK;
    }
    for (size_t i = 0; i < sizeof(real) / sizeof(real[0]); i++) {
        if (real[i].given) {
            return base_error_set(error, BASE_ERR_INVALID, "%s is not for virtual time (--virtual)",
                                  real[i].name);
        }
    }
    if (options->awake_max == SIM_AWAKE_DEFAULT) { // shards share it, and none waits for another
        options->awake_max = SIM_AWAKE_VIRTUAL;
    }
    options->installation = 0; // the same run each time
    return BASE_OK;
}
