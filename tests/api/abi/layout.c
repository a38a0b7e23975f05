/* What a program compiled against the headers relies on without a function call: sizes, places of
 * fields, numbers. A line here changes only together with the soname. */
#include <assert.h>
#include <gqsgd_log.h>
#include <gqsgd_stages.h>
#include <gqsgd_transport.h>

static_assert(sizeof(gqsgd_status) == 4, "a status is 32 bits");
static_assert(sizeof(gqsgd_unique_id) == 256, "unique ids are passed on as 256 bytes");
static_assert(sizeof(gqsgd_comm) == sizeof(void *), "handles are one word");
static_assert(sizeof(gqsgd_quantizer) == sizeof(void *), "handles are one word");

static_assert(sizeof(gqsgd_dtype) == 4, "enumerations are 32 bits");
static_assert(sizeof(gqsgd_op) == 4, "enumerations are 32 bits");
static_assert(sizeof(gqsgd_schedule) == 4, "enumerations are 32 bits");
static_assert(sizeof(gqsgd_step_source) == 4, "enumerations are 32 bits");
static_assert(sizeof(gqsgd_log_level) == 4, "enumerations are 32 bits");

static_assert(sizeof(gqsgd_config) == 40, "later versions append, and read size_bytes");
static_assert(offsetof(gqsgd_config, size_bytes) == 0, "");
static_assert(offsetof(gqsgd_config, schedule) == 8, "");
static_assert(offsetof(gqsgd_config, step_source) == 12, "");
static_assert(offsetof(gqsgd_config, step) == 16, "");
static_assert(offsetof(gqsgd_config, index) == 24, "");
static_assert(offsetof(gqsgd_config, device_step) == 32, "");

static_assert(sizeof(gqsgd_transport) == 104, "later versions append");
static_assert(offsetof(gqsgd_transport, user) == 8, "");
static_assert(offsetof(gqsgd_transport, node_ids) == 24, "");
static_assert(offsetof(gqsgd_transport, send) == 32, "");
static_assert(offsetof(gqsgd_transport, close) == 64, "");
static_assert(offsetof(gqsgd_transport, allreduce) == 88, "");
static_assert(offsetof(gqsgd_transport, name) == 96, "");

static_assert(sizeof(gqsgd_site) == 72, "bindings pass a site as nine 64-bit numbers");
static_assert(offsetof(gqsgd_site, rank) == 0, "");
static_assert(offsetof(gqsgd_site, size) == 8, "");
static_assert(offsetof(gqsgd_site, reduction_depth) == 16, "");
static_assert(offsetof(gqsgd_site, step) == 24, "");
static_assert(offsetof(gqsgd_site, index) == 32, "");
static_assert(offsetof(gqsgd_site, first_value) == 40, "");
static_assert(offsetof(gqsgd_site, hop) == 48, "");
static_assert(offsetof(gqsgd_site, weight_a) == 56, "");
static_assert(offsetof(gqsgd_site, weight_b) == 64, "");

static_assert(GQSGD_OK == 0, "");
static_assert(GQSGD_INVALID_ARGUMENT == 1 && GQSGD_UNSUPPORTED == 2, "");
static_assert(GQSGD_BAD_HANDLE == 3 && GQSGD_BUSY == 4 && GQSGD_FORKED == 5, "");
static_assert(GQSGD_NO_MEMORY == 20 && GQSGD_NO_RESOURCE == 21, "");
static_assert(GQSGD_SYSTEM == 22 && GQSGD_BACKEND == 23, "");
static_assert(GQSGD_MISMATCH == 40 && GQSGD_VERSION == 41, "");
static_assert(GQSGD_REMOTE_ERROR == 42 && GQSGD_DUPLICATE_RANK == 43, "");
static_assert(GQSGD_TIMEOUT == 60 && GQSGD_PEER_LOST == 61, "");
static_assert(GQSGD_ABORTED == 62 && GQSGD_REVOKED == 63 && GQSGD_PROTOCOL == 64, "");
static_assert(GQSGD_INTEGRITY == 65, "");
static_assert(GQSGD_NONFINITE == 80 && GQSGD_OVERFLOW == 81 && GQSGD_INTERNAL == 99, "");

static_assert(GQSGD_FLOAT32 == 0 && GQSGD_FLOAT16 == 1, "");
static_assert(GQSGD_BFLOAT16 == 2 && GQSGD_FLOAT64 == 3, "");
static_assert(GQSGD_SUM == 0 && GQSGD_MEAN == 1, "");
static_assert(GQSGD_STEP_COUNTER == 0 && GQSGD_STEP_GIVEN == 1 && GQSGD_STEP_DEVICE == 2, "");
static_assert(GQSGD_LOG_NONE == 0 && GQSGD_LOG_WARN == 1, "");
static_assert(GQSGD_LOG_INFO == 2 && GQSGD_LOG_TRACE == 3, "");
static_assert(GQSGD_ADD_UINT64 == 0 && GQSGD_ADD_FLOAT32 == 1, "");
static_assert(GQSGD_SCHEDULE_AUTO == 0 && GQSGD_SCHEDULE_RING == 1, "");
static_assert(GQSGD_SCHEDULE_TREE == 2 && GQSGD_SCHEDULE_BUTTERFLY == 3, "");
static_assert(GQSGD_SCHEDULE_DIRECT == 4 && GQSGD_SCHEDULE_HIERARCHICAL == 5, "");
static_assert(GQSGD_SCHEDULE_NATIVE == 6 && GQSGD_SCHEDULE_SPARSE == 7, "");
