/* libgqsgd_jax.so: the XLA handlers behind gqsgd.jax.allreduce, for CPUs and for GPUs, and the
 * table of what they work on.
 *
 * Programs name communicators and quantizers by small numbers, because what is written into a
 * program should be the same in every process and in every run. Functions of libgqsgd are kept with
 * each handle: a process may have loaded two copies, which do not know each other's handles. */
#include <gqsgd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bindings/jax/xla_ffi.h"

#define EXPORTED __attribute__((visibility("default")))

enum { SENTENCE_SIZE_BYTES = 2048 };

/* Kinds of devices, by the numbers that Python knows as well. */
typedef enum { KIND_CPU = 0, KIND_CUDA = 1, KIND_COUNT } Kind;

static const char *const kind_names[KIND_COUNT] = {"cpu", "cuda"};

/* Functions of the libgqsgd that made a handle. */
typedef struct {
  __typeof__(&gqsgd_allreduce) allreduce;
  __typeof__(&gqsgd_allreduce_many) allreduce_many;
  __typeof__(&gqsgd_comm_refuse) comm_refuse;
  __typeof__(&gqsgd_last_error) last_error;
  __typeof__(&gqsgd_status_name) status_name;
} Library;

typedef struct {
  Library library;
  void *handle;
} Entry;

/* XLA's numbers of the devices of this process, in JAX's order. */
typedef struct {
  int32_t *numbers;
  int32_t count;
} Devices;

/* The process's table. Entries are never removed: a stale handle is refused by its library. */
static struct {
  pthread_mutex_t lock;
  Entry *entries;
  int32_t entry_count;
  Devices devices[KIND_COUNT];
} table = {PTHREAD_MUTEX_INITIALIZER, NULL, 0, {{NULL, 0}, {NULL, 0}}};

/* What one call works on. */
typedef struct {
  Kind kind;
  Entry comm, quantizer;
  gqsgd_dtype dtype;
  gqsgd_op op;
  gqsgd_config config;
  void *stream; /* NULL on a CPU */
} Call;

/* Enters a communicator or quantizer; its number, or -1 without memory. */
EXPORTED int32_t gqsgd_jax_add(const Library *library, void *handle) {
  int32_t number = -1;
  pthread_mutex_lock(&table.lock);
  const size_t grown = sizeof(Entry) * ((size_t)table.entry_count + 1);
  Entry *entries = realloc(table.entries, grown);
  if (entries != NULL) {
    table.entries = entries;
    number = table.entry_count++;
    entries[number] = (Entry){*library, handle};
  }
  pthread_mutex_unlock(&table.lock);
  return number;
}

/* Finds which devices of a kind an array of communicators is for; 0, or -1 without memory. */
EXPORTED int32_t gqsgd_jax_set_devices(int32_t kind, const int32_t *devices, int32_t device_count) {
  const size_t size_bytes = sizeof(int32_t) * (size_t)device_count;
  int32_t *copy = malloc(size_bytes > 0 ? size_bytes : 1);
  if (copy == NULL) return -1;
  memcpy(copy, devices, size_bytes);
  pthread_mutex_lock(&table.lock);
  free(table.devices[kind].numbers);
  table.devices[kind] = (Devices){copy, device_count};
  pthread_mutex_unlock(&table.lock);
  return 0;
}

static int find_entry(int32_t number, Entry *entry) {
  pthread_mutex_lock(&table.lock);
  const int found = number >= 0 && number < table.entry_count;
  if (found) *entry = table.entries[number];
  pthread_mutex_unlock(&table.lock);
  return found;
}

/* Position of a device in the array of its kind; -1 if it is not there. */
static int32_t device_position(Kind kind, int32_t device) {
  pthread_mutex_lock(&table.lock);
  const Devices *devices = &table.devices[kind];
  int32_t position = devices->count;
  while (--position >= 0 && devices->numbers[position] != device) {
  }
  pthread_mutex_unlock(&table.lock);
  return position;
}

static XlaError *failed(const XlaCallFrame *frame, int code, const char *sentence) {
  XlaErrorCreateArgs args = {sizeof args, NULL, sentence, code};
  return frame->api->error_create(&args);
}

static XlaError *refused(const XlaCallFrame *frame, const char *sentence) {
  return failed(frame, XLA_INVALID_ARGUMENT, sentence);
}

static int absl_code(gqsgd_status status) {
  switch (status) {
    case GQSGD_INVALID_ARGUMENT:
    case GQSGD_BAD_HANDLE:
      return XLA_INVALID_ARGUMENT;
    case GQSGD_UNSUPPORTED:
      return XLA_UNIMPLEMENTED;
    case GQSGD_NO_MEMORY:
    case GQSGD_NO_RESOURCE:
      return XLA_RESOURCE_EXHAUSTED;
    case GQSGD_TIMEOUT:
      return XLA_DEADLINE_EXCEEDED;
    case GQSGD_PEER_LOST:
      return XLA_UNAVAILABLE;
    case GQSGD_ABORTED:
    case GQSGD_REVOKED:
      return XLA_ABORTED;
    case GQSGD_INTERNAL:
      return XLA_INTERNAL;
    default:
      return XLA_FAILED_PRECONDITION;
  }
}

/* The attribute of this name and kind, or NULL. */
static const void *attribute(const XlaCallFrame *frame, const char *name, int type) {
  const XlaAttributes *all = &frame->attrs;
  for (int64_t k = 0; k < all->size; ++k) {
    const XlaBytes *here = all->names[k];
    if (here->len == strlen(name) && memcmp(here->ptr, name, here->len) == 0) {
      return all->types[k] == type ? all->attrs[k] : NULL;
    }
  }
  return NULL;
}

static int read_int32(const XlaCallFrame *frame, const char *name, int32_t *value) {
  const XlaScalar *scalar = attribute(frame, name, XLA_ATTRIBUTE_SCALAR);
  if (scalar == NULL || scalar->dtype != XLA_S32) return 0;
  *value = *(const int32_t *)scalar->value;
  return 1;
}

static gqsgd_dtype element_type_of(int xla_dtype) {
  switch (xla_dtype) {
    case XLA_F32:
      return GQSGD_FLOAT32;
    case XLA_F16:
      return GQSGD_FLOAT16;
    case XLA_BF16:
      return GQSGD_BFLOAT16;
    case XLA_F64:
      return GQSGD_FLOAT64;
    default:
      return -1; /* which the library refuses */
  }
}

static size_t value_count(const XlaBuffer *buffer) {
  size_t count = 1;
  for (int64_t k = 0; k < buffer->rank; ++k) count *= (size_t)buffer->dims[k];
  return count;
}

/* The communicator of the device that this call runs on. */
static XlaError *find_comm(const XlaCallFrame *frame, Kind kind, Entry *comm) {
  const XlaArray *numbers = attribute(frame, "comms", XLA_ATTRIBUTE_ARRAY);
  if (numbers == NULL || numbers->dtype != XLA_S32 || numbers->size == 0) {
    return refused(frame, "gqsgd: a call has no communicators");
  }
  size_t position = 0;
  if (numbers->size > 1) {
    XlaDeviceOrdinalArgs args = {sizeof args, NULL, frame->ctx, 0};
    XlaError *error = frame->api->device_ordinal_get(&args);
    if (error != NULL) return error;
    const int32_t found = device_position(kind, args.device_ordinal);
    position = found < 0 ? numbers->size : (size_t)found;
    if (position >= numbers->size) {
      char sentence[SENTENCE_SIZE_BYTES];
      snprintf(
          sentence, sizeof sentence,
          "gqsgd INVALID_ARGUMENT: comm is a list of %zu communicators, and none is for device %d;"
          " hint: one for each of jax.local_devices(backend=\"%s\"), in that order",
          numbers->size, (int)args.device_ordinal, kind_names[kind]);
      return refused(frame, sentence);
    }
  }
  if (!find_entry(((const int32_t *)numbers->data)[position], comm)) {
    return refused(frame, "gqsgd: a program names a communicator that this process does not have");
  }
  return NULL;
}

/* Whether all tensors have one dtype, and results the sizes of their operands. */
static int tensors_agree(const XlaCallFrame *frame, int64_t tensor_count) {
  for (int64_t k = 0; k < tensor_count; ++k) {
    const XlaBuffer *send = frame->args.buffers[k], *recv = frame->rets.buffers[k];
    if (send->dtype != frame->args.buffers[0]->dtype || recv->dtype != send->dtype ||
        value_count(recv) != value_count(send)) {
      return 0;
    }
  }
  return 1;
}

/* The step of a call, which orders it too: what the state holds, or on a GPU, where
 * the host does not wait for it, its address. The program counts; a call passes the state on, so
 * that the next one comes after it. */
static XlaError *read_state(const XlaCallFrame *frame, const XlaBuffer *state, Call *call) {
  const XlaBuffer *passed_on = frame->rets.buffers[frame->rets.size - 1];
  if (state->dtype != XLA_U32 || value_count(state) != 2 || passed_on->dtype != XLA_U32 ||
      value_count(passed_on) != 2) {
    return refused(frame, "gqsgd: the state of a call is not two numbers of uint32");
  }
  if (call->kind == KIND_CPU) {
    const uint32_t *given = state->data;
    call->config.step_source = GQSGD_STEP_GIVEN;
    call->config.step = given[0];
    call->config.index = given[1];
    if (passed_on->data != given) memcpy(passed_on->data, given, 2 * sizeof *given);
    return NULL;
  }
  if (passed_on->data != state->data) {
    return refused(frame, "gqsgd: the state of a call on a GPU does not stay where it is");
  }
  call->config.step_source = GQSGD_STEP_DEVICE;
  call->config.device_step = state->data;
  XlaStreamArgs args = {sizeof args, NULL, frame->ctx, NULL};
  XlaError *error = frame->api->stream_get(&args);
  call->stream = args.stream;
  return error;
}

/* Reads what a call works on; operands are tensors of one dtype and, last, {step, index}. */
static XlaError *read_call(const XlaCallFrame *frame, Call *call) {
  const int64_t tensor_count = frame->args.size - 1;
  int32_t quantizer = -1, op = 0, schedule = 0;
  if (tensor_count < 1 || frame->rets.size != frame->args.size ||
      !read_int32(frame, "quantizer", &quantizer) || !read_int32(frame, "op", &op) ||
      !read_int32(frame, "schedule", &schedule) || !tensors_agree(frame, tensor_count)) {
    return refused(frame, "gqsgd: a call is not as gqsgd.jax makes it");
  }
  call->op = (gqsgd_op)op;
  call->config.schedule = (gqsgd_schedule)schedule;
  XlaError *error = read_state(frame, frame->args.buffers[tensor_count], call);
  if (error != NULL) return error;
  if (!find_entry(quantizer, &call->quantizer)) {
    return refused(frame, "gqsgd: a program names a quantizer that this process does not have");
  }
  call->dtype = element_type_of(frame->args.buffers[0]->dtype);
  return find_comm(frame, call->kind, &call->comm);
}

/* NULL, or the library's name of the status and its sentence as the error that JAX raises. */
static XlaError *outcome(const XlaCallFrame *frame, const Library *library, gqsgd_status status) {
  if (status == GQSGD_OK) return NULL;
  char sentence[SENTENCE_SIZE_BYTES];
  snprintf(sentence, sizeof sentence, "gqsgd %s: %s", library->status_name(status),
           library->last_error());
  return failed(frame, absl_code(status), sentence);
}

static XlaError *allreduce_one(const XlaCallFrame *frame, const Call *call) {
  const Library *library = &call->comm.library;
  const XlaBuffer *send = frame->args.buffers[0];
  return outcome(frame, library,
                 library->allreduce(call->comm.handle, call->quantizer.handle, send->data,
                                    frame->rets.buffers[0]->data, value_count(send), call->dtype,
                                    call->op, &call->config, call->stream));
}

/* Refuses the call, so that other ranks get REMOTE_ERROR with NO_MEMORY and do not wait for this
 * one. */
static XlaError *no_memory(const XlaCallFrame *frame, const Call *call) {
  (void)call->comm.library.comm_refuse(call->comm.handle, GQSGD_NO_MEMORY, &call->config,
                                       call->stream);
  return failed(frame, XLA_RESOURCE_EXHAUSTED,
                "gqsgd NO_MEMORY: no memory for the addresses of a call's tensors");
}

static XlaError *allreduce_many(const XlaCallFrame *frame, const Call *call) {
  const Library *library = &call->comm.library;
  const size_t tensor_count = (size_t)frame->args.size - 1;
  const void **send = malloc(tensor_count * (2 * sizeof(void *) + sizeof(size_t)));
  if (send == NULL) return no_memory(frame, call);
  void **recv = (void **)(send + tensor_count);
  size_t *counts = (size_t *)(recv + tensor_count);
  for (size_t k = 0; k < tensor_count; ++k) {
    send[k] = frame->args.buffers[k]->data;
    recv[k] = frame->rets.buffers[k]->data;
    counts[k] = value_count(frame->args.buffers[k]);
  }
  XlaError *error = outcome(
      frame, library,
      library->allreduce_many(call->comm.handle, call->quantizer.handle, send, recv, counts,
                              tensor_count, call->dtype, call->op, &call->config, call->stream));
  free(send);
  return error;
}

/* XLA queries the interface's version when a handler is registered; 1 if this call is that
 * query. */
static int tells_version(const XlaCallFrame *frame) {
  const XlaExtension *extension = frame->extension_start;
  if (extension == NULL || extension->type != XLA_EXTENSION_METADATA) return 0;
  XlaMetadata *metadata = ((const XlaMetadataExtension *)extension)->metadata;
  metadata->api_version.major_version = XLA_API_MAJOR;
  metadata->api_version.minor_version = XLA_API_MINOR;
  metadata->traits = 0; /* a first call of its kind waits for other ranks, which no graph can */
  return 1;
}

static XlaError *allreduce(const XlaCallFrame *frame, Kind kind) {
  if (tells_version(frame) || frame->stage != XLA_STAGE_EXECUTE) return NULL;
  Call call = {.kind = kind, .config = GQSGD_CONFIG_INIT};
  XlaError *error = read_call(frame, &call);
  if (error != NULL) return error;
  return frame->args.size == 2 ? allreduce_one(frame, &call) : allreduce_many(frame, &call);
}

/** Averages or adds tensors over the ranks of a communicator, on the CPU. */
EXPORTED XlaError *gqsgd_jax_allreduce(XlaCallFrame *frame) { return allreduce(frame, KIND_CPU); }

/** The same in memory of a GPU, enqueued on the stream that XLA works on. */
EXPORTED XlaError *gqsgd_jax_allreduce_on_stream(XlaCallFrame *frame) {
  return allreduce(frame, KIND_CUDA);
}

/** Stands where a handler for another kind of device would, so that a program for one is refused in
 *  words. */
EXPORTED XlaError *gqsgd_jax_refuse_device(XlaCallFrame *frame) {
  if (tells_version(frame) || frame->stage != XLA_STAGE_EXECUTE) return NULL;
  return failed(
      frame, XLA_UNIMPLEMENTED,
      "gqsgd UNSUPPORTED: gqsgd.jax.allreduce runs on CPUs and on GPUs of NVIDIA, and this"
      " program is for another device; hint: jax.default_device(jax.devices(\"cpu\")[0])");
}
