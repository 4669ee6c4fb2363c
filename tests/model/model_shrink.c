// Delta debugging over operations. One thread.
#include "model_shrink.h"

#include <stdlib.h>
#include <string.h>

void model_play(const struct model_ops *ops, const char *home, bool verbose,
                struct model_result *out)
{
    struct model_world *world = calloc(1, sizeof(*world));
    *out = (struct model_result){0};
    if (world == NULL) {
        abort();
    }
    model_world_open(world, &ops->items[0], home, verbose);
    for (uint32_t i = 1; i < ops->count && !world->failed; i++) {
        model_world_do(world, &ops->items[i]);
        out->done = i + 1;
    }
    model_world_close(world);
    out->failed = world->failed;
    out->calls = model_world_calls(world);
    out->checks = world->checks;
    out->waits = world->waits;
    out->whys = world->whys;
    memcpy(out->rule, world->rule, sizeof(out->rule));
    memcpy(out->text, world->text, sizeof(out->text));
    free(world);
}

// Without the `size` operations from `at`.
static struct model_ops without(const struct model_ops *ops, uint32_t at, uint32_t size)
{
    struct model_ops left = {0};
    for (uint32_t i = 0; i < ops->count; i++) {
        if (i < at || i >= at + size) {
            model_ops_add(&left, &ops->items[i]);
        }
    }
    return left;
}

// Takes `less` when it fails by the same rule.
static bool take(struct model_ops *ops, struct model_ops *less, const char *home,
                 struct model_result *found)
{
    struct model_result result;
    model_play(less, home, false, &result);
    if (!result.failed || strcmp(result.rule, found->rule) != 0) {
        model_ops_done(less);
        return false;
    }
    less->count = result.done > 0 && result.done < less->count ? result.done : less->count;
    model_ops_done(ops);
    *ops = *less;
    *found = result;
    return true;
}

// Arguments that may as well be 0: a sequence without them says more.
static void plain(struct model_ops *ops, const char *home, uint32_t *tries,
                  struct model_result *found)
{
    for (uint32_t i = 0; i < ops->count; i++) {
        bool created = ops->items[i].kind == MODEL_OP_CREATE;
        for (uint32_t k = 3; created && k<MODEL_ARGS_MAX && * tries> 0; k++) {
            if (ops->items[i].args[k] != 0) {
                struct model_ops less = without(ops, 0, 0);
                less.items[i].args[k] = 0;
                (*tries)--;
                (void)take(ops, &less, home, found);
            }
        }
    }
}

// One device after another is away from the beginning, and fewer there are.
static void fewer_devices(struct model_ops *ops, const char *home, uint32_t *tries,
                          struct model_result *found)
{
    for (int64_t count = 1; count < ops->items[0].args[1] && *tries > 0; count *= 2) {
        struct model_ops less = without(ops, 0, 0);
        less.items[0].args[1] = count;
        (*tries)--;
        if (take(ops, &less, home, found)) {
            return;
        }
    }
}

void model_shrink(struct model_ops *ops, const char *home, uint32_t tries,
                  struct model_result *found)
{
    ops->count = found->done > 1 && found->done < ops->count ? found->done : ops->count;
    uint32_t size = ops->count / 2;
    while (size > 0 && tries > 0) {
        bool smaller = false;
        for (uint32_t at = 1; at < ops->count && tries > 0;) {
            uint32_t part = at + size <= ops->count ? size : ops->count - at;
            struct model_ops less = without(ops, at, part);
            tries--;
            if (take(ops, &less, home, found)) {
                smaller = true;
            } else {
                at += part;
            }
        }
        size = size == 1 && smaller ? 1 : size / 2;
    }
    fewer_devices(ops, home, &tries, found);
    plain(ops, home, &tries, found);
}
