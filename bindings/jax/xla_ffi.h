/* The part of XLA's foreign function interface (version 0.3) that handlers on CPUs and GPUs need,
 * so that building wants no header of jaxlib. A test compares every member with jaxlib's own. */
#ifndef GQSGD_BINDINGS_JAX_XLA_FFI_H
#define GQSGD_BINDINGS_JAX_XLA_FFI_H

#include <stddef.h>
#include <stdint.h>

enum { XLA_API_MAJOR = 0, XLA_API_MINOR = 3 };
enum { XLA_EXTENSION_METADATA = 1 };
enum { XLA_STAGE_EXECUTE = 3 };
enum { XLA_ATTRIBUTE_ARRAY = 1, XLA_ATTRIBUTE_SCALAR = 3 };
enum { XLA_S32 = 4, XLA_U32 = 8, XLA_F16 = 10, XLA_F32 = 11, XLA_F64 = 12, XLA_BF16 = 16 };

/* Codes of absl::Status. */
enum {
  XLA_UNKNOWN = 2,
  XLA_INVALID_ARGUMENT = 3,
  XLA_DEADLINE_EXCEEDED = 4,
  XLA_RESOURCE_EXHAUSTED = 8,
  XLA_FAILED_PRECONDITION = 9,
  XLA_ABORTED = 10,
  XLA_UNIMPLEMENTED = 12,
  XLA_INTERNAL = 13,
  XLA_UNAVAILABLE = 14
};

typedef struct XlaError XlaError;
typedef struct XlaContext XlaContext;

typedef struct XlaExtension {
  size_t struct_size;
  int type;
  struct XlaExtension *next;
} XlaExtension;

typedef struct {
  size_t struct_size;
  XlaExtension *extension_start;
  int major_version;
  int minor_version;
} XlaApiVersion;

typedef struct {
  size_t struct_size;
  XlaExtension *extension_start;
  const char *message;
  int errc;
} XlaErrorCreateArgs;

typedef struct {
  size_t struct_size;
  XlaExtension *extension_start;
  XlaContext *ctx;
  void *stream;
} XlaStreamArgs;

typedef struct {
  size_t struct_size;
  XlaExtension *extension_start;
  XlaContext *ctx;
  int32_t device_ordinal;
} XlaDeviceOrdinalArgs;

/* XLA's functions; those that are not called here are counted. */
typedef struct {
  size_t struct_size;
  XlaExtension *extension_start;
  XlaApiVersion api_version;
  const void *internal_api;
  XlaError *(*error_create)(XlaErrorCreateArgs *args);
  void (*others[3])(void);
  XlaError *(*stream_get)(XlaStreamArgs *args);
  void (*more_others[12])(void);
  XlaError *(*device_ordinal_get)(XlaDeviceOrdinalArgs *args);
} XlaApi;

/* An array: `dims` has `rank` numbers. */
typedef struct {
  size_t struct_size;
  XlaExtension *extension_start;
  int dtype;
  void *data;
  int64_t rank;
  int64_t *dims;
} XlaBuffer;

/* Arguments or results, which are all buffers. */
typedef struct {
  size_t struct_size;
  XlaExtension *extension_start;
  int64_t size;
  int *types;
  XlaBuffer **buffers;
} XlaBuffers;

typedef struct {
  const char *ptr;
  size_t len;
} XlaBytes;

typedef struct {
  int dtype;
  void *value;
} XlaScalar;

typedef struct {
  int dtype;
  size_t size;
  void *data;
} XlaArray;

/* Attributes: an entry of `attrs` has the type in `types`, an XlaScalar or an XlaArray here. */
typedef struct {
  size_t struct_size;
  XlaExtension *extension_start;
  int64_t size;
  int *types;
  XlaBytes **names;
  void **attrs;
} XlaAttributes;

typedef struct {
  size_t struct_size;
  XlaExtension *extension_start;
  const XlaApi *api;
  XlaContext *ctx;
  int stage;
  XlaBuffers args;
  XlaBuffers rets;
  XlaAttributes attrs;
} XlaCallFrame;

/* What XLA queries from a handler once, instead of a call. The one trait: what a call enqueues may
 * become part of a graph and be replayed. */
typedef struct {
  size_t struct_size;
  XlaApiVersion api_version;
  uint32_t traits;
} XlaMetadata;

typedef struct {
  XlaExtension extension_base;
  XlaMetadata *metadata;
} XlaMetadataExtension;

#endif
