// Enrolment of a virtual device, before its runtime boots; see fleet_enrol.c. On the shard's
// thread, but for sim_enrol_check.
#ifndef SIM_FLEET_ENROL_H
#define SIM_FLEET_ENROL_H

#include "run/fleet.h"

#define SIM_ENROLLING_BYTES_MAX 256 // of the runtime's memory, which is always more

// The file of the fleet's credentials, or in virtual time a place in memory that goes with the run;
// *out stays NULL where nobody has any. The codes of sim_credentials_open. Coordinator's thread.
BASE_NODISCARD enum base_status sim_enrol_open(const struct sim_options *options,
                                               struct sim_credentials **out,
                                               struct base_error *error);
// What the device shows; empty: nothing. Valid for the whole run.
struct base_str sim_awake_credential(const struct sim_awake *awake);
// Are there credentials to be had, and has the device none?
// What a fault took is not missed. A device that is installed anew has nothing it had; as another
// it enrols.
void sim_device_reinstall(struct sim_awake *awake);
bool sim_enrol_needed(const struct sim_awake *awake);
// Asks. `memory` is the runtime's, SIM_ENROLLING_BYTES_MAX of it.
void sim_enrol_begin(struct sim_awake *awake, void *memory, uint64_t now_us);
// The answer comes in.
void sim_enrol_head(struct sim_awake *awake, const struct dev_response_head *head);
void sim_enrol_body(struct sim_awake *awake, const uint8_t *bytes, size_t size);
void sim_enrol_end(struct sim_awake *awake, enum base_status status);
bool sim_enrol_over(const struct sim_awake *awake);
uint64_t sim_enrol_deadline_us(const struct sim_awake *awake);
// The answer is there, or its time is over. True: the device has its credential and may boot;
// otherwise it asks again after *out_wait_ms.
bool sim_enrol_done(struct sim_awake *awake, uint32_t *out_wait_ms);
// Are the credentials of the file those of this shard's devices? CONFLICT. Coordinator's thread,
// before the shards run.
BASE_NODISCARD enum base_status sim_enrol_check(const struct sim_shard *shard,
                                                struct base_error *error);

#endif
