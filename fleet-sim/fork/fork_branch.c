// Branches as the command line has them: their names and deeds, checked before anything is played.
// fork_main.c calls it on the main thread; pure. What each deed may be says model/run_act.h; here
// is what makes a branch of them.
#include "fork/fork.h"

#include "base/check.h"
#include "base/text/str_cut.h"

#include <string.h>

#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

static enum base_status name_take(struct sim_fork *fork, struct base_str name,
                                  struct sim_branch *branch, struct base_error *error)
{
    base_str_copy(name, branch->name, sizeof(branch->name));
    if (name.size == 0 || name.size > SIM_BRANCH_NAME ||
        branch->name[strspn(branch->name, NAME_LETTERS)] != '\0') {
        return base_error_set(error, BASE_ERR_INVALID,
                              "a name of 1 to %u letters, digits, '-' and '_' is expected first",
                              SIM_BRANCH_NAME);
    }
    for (uint32_t i = 0; i < fork->count; i++) {
        if (strcmp(fork->branches[i].name, branch->name) == 0) {
            return base_error_set(error, BASE_ERR_EXISTS, "there is a branch '%s' already",
                                  branch->name);
        }
    }
    return BASE_OK;
}

static enum base_status deed_take(struct sim_branch *branch, struct base_str deed,
                                  struct base_error *error)
{
    base_assert(branch->act_count <= SIM_ACTS_MAX);
    if (deed.size == 0) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "a deed is expected: pause, resume, promote, abort, kill, calm or "
                              "'fault FAULT'");
    }
    if (branch->act_count == SIM_ACTS_MAX || deed.size >= SIM_BRANCH_TEXT - 16) {
        return base_error_set(error, BASE_ERR_LIMIT, "at most %u deeds of %u characters",
                              SIM_ACTS_MAX, SIM_BRANCH_TEXT - 17);
    }
    base_str_copy(deed, branch->acts[branch->act_count++], SIM_BRANCH_TEXT);
    return BASE_OK;
}

enum base_status sim_branch_add(struct sim_fork *fork, const char *text, struct base_error *error)
{
    const char *colon = strchr(text, ':');
    base_assert(fork->count > 0); // the run as it was
    if (fork->count == SIM_BRANCHES_MAX) {
        return base_error_set(error, BASE_ERR_LIMIT, "at most %u branches", SIM_BRANCHES_MAX - 1);
    }
    struct sim_branch *branch = &fork->branches[fork->count];
    branch->act_count = 0;
    // A deed alone names its branch.
    bool alone = colon == NULL || strspn(text, NAME_LETTERS) < (size_t)(colon - text);
    size_t size = alone ? strcspn(text, " ;") : (size_t)(colon - text);
    BASE_TRY(name_take(fork, (struct base_str){text, size}, branch, error));
    for (const char *at = alone ? text : colon + 1;; at++) {
        size = strcspn(at, ";");
        BASE_TRY(deed_take(branch, base_str_trim((struct base_str){at, size}), error));
        at += size;
        if (*at == '\0') {
            fork->count++;
            return BASE_OK;
        }
    }
}

// "+S DEED" as S and DEED; 0 where there is no S. False: it is no number.
static bool later_take(const char **deed, uint64_t *out_later_s)
{
    const char *space = strchr(*deed, ' ');
    *out_later_s = 0;
    if (**deed != '+') {
        return true;
    }
    const char *number = *deed + 1;
    if (space == NULL ||
        base_str_u64((struct base_str){number, (size_t)(space - number)}, out_later_s) != BASE_OK ||
        *out_later_s > SIM_BRANCH_SECONDS) {
        return false;
    }
    *deed = space + 1;
    return true;
}

static enum base_status deed_place(const struct sim_fork *fork, char act[SIM_BRANCH_TEXT],
                                   struct sim_acts *acts, struct sim_fault_plan *plan,
                                   struct base_error *error)
{
    char placed[SIM_BRANCH_TEXT + 16];
    const char *deed = act;
    uint64_t later_s = 0;
    if (!later_take(&deed, &later_s)) {
        return base_error_set(error, BASE_ERR_INVALID, "'%.60s': '+SECONDS DEED' is expected", act);
    }
    (void)snprintf(placed, sizeof(placed), "%llu %s", (unsigned long long)(fork->at_s + later_s),
                   deed);
    if (strlen(placed) >= SIM_BRANCH_TEXT) {
        return base_error_set(error, BASE_ERR_LIMIT, "'%.60s': too long", act);
    }
    BASE_TRY(sim_act_add(acts, plan, base_str_of(placed), error));
    memcpy(act, placed, strlen(placed) + 1);
    return BASE_OK;
}

enum base_status sim_branches_place(struct sim_fork *fork, struct base_error *error)
{
    base_assert(fork->count > 0);
    for (uint32_t b = 1; b < fork->count; b++) {
        struct sim_branch *branch = &fork->branches[b];
        struct sim_acts acts = {.count = 0};
        struct sim_fault_plan plan = {.rule_count = 0};
        struct base_error inner = {.status = BASE_OK};
        for (uint32_t i = 0; i < branch->act_count; i++) {
            if (deed_place(fork, branch->acts[i], &acts, &plan, &inner) != BASE_OK) {
                return base_error_set(error, BASE_ERR_INVALID, "--branch %s: %s", branch->name,
                                      inner.text);
            }
        }
    }
    return BASE_OK;
}
