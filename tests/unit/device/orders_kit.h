// What the tests of orders share: a device on the rig that asks the online roles, and approvals of
// its one task, released and ordered by number.
#ifndef ORDERS_KIT_H
#define ORDERS_KIT_H

#include "role_rig.h"

#include "core/base/runtime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define TASK             "demo/score"
#define STAGE_FULL       3
#define COUNTER(version) ((version) + 1u)

static struct role_rig roles;
static struct rig *rig = &roles.rig;
static bool names_floors; // each approval names the one before it, as the baseline of the time

static inline int teardown(void **state)
{
    (void)state;
    role_rig_done(&roles);
    return 0;
}

// Version N was approved under COUNTER(N) in rollout 0x10 + N.
static inline struct rig_statement approval(uint32_t version)
{
    return (struct rig_statement){.task = TASK,
                                  .version = version,
                                  .counter = COUNTER(version),
                                  .floor = names_floors ? version : 0,
                                  .rollout_id = 0x10 + version,
                                  .stage = STAGE_FULL,
                                  .signers = 3};
}

static inline void release(uint32_t version)
{
    struct rig_statement statement = approval(version);
    role_release(&roles, &statement);
    rig_checkin(rig);
}

// ... and it is what runs then.
static inline void install(uint32_t version)
{
    release(version);
    assert_int_equal(rig_active(rig, TASK), (int)version);
}

static inline void order(uint32_t version)
{
    struct rig_statement statement = approval(version);
    rig_offer(rig, &statement);
    rig_checkin(rig);
}

static inline void restart(void)
{
    rig_kill(rig);
    rig_boot(rig);
}

#endif
