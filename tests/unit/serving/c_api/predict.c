/* Asks an exported model through the TensorFlow C API: no Python, no C++.
 *
 *   predict SAVED_MODEL_DIR RECORDS_FILE
 *
 * RECORDS_FILE is an uncompressed TFRecord file of serialized graph tf.Examples.
 * Prints the shape of `logits`, then one line "id <tab> label <tab> score" an
 * example. Exit codes: 1 the program was called wrongly or a file cannot be read,
 * 2 the model cannot be loaded or has no such signature, 3 the model refused the
 * request. Messages go to stderr.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/c/c_api.h"
#include "tensorflow/c/tf_tstring.h"

#define SIGNATURE "serving_default"
#define NUM_OUTPUTS 4
static const char *const kOutputs[NUM_OUTPUTS] = {"id", "label", "score", "logits"};

static void fail(int code, const char *what, const char *why) {
  fprintf(stderr, "%s: %s\n", what, why);
  exit(code);
}

static void check(TF_Status *status, int code, const char *what) {
  if (TF_GetCode(status) != TF_OK) fail(code, what, TF_Message(status));
}

/* ---- protobuf wire format: as much as it takes to find a name ---- */

typedef struct {
  const uint8_t *data;
  size_t size;
} Bytes;

static uint64_t read_varint(Bytes *in) {
  uint64_t value = 0;
  for (int shift = 0; in->size > 0 && shift < 64; shift += 7) {
    uint8_t byte = *in->data++;
    in->size--;
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return value;
  }
  fail(2, "MetaGraphDef", "truncated varint");
  return 0;
}

/* Takes one field off the front; returns 0 at the end. Only length-delimited fields have bytes. */
static int next_field(Bytes *in, uint32_t *number, Bytes *value) {
  if (in->size == 0) return 0;
  uint64_t tag = read_varint(in);
  uint64_t skip = 0;
  *number = (uint32_t)(tag >> 3);
  value->data = NULL;
  value->size = 0;
  switch (tag & 7) {
    case 0: read_varint(in); return 1;
    case 1: skip = 8; break;
    case 2: skip = read_varint(in); break;
    case 5: skip = 4; break;
    default: fail(2, "MetaGraphDef", "unknown wire type");
  }
  if (skip > in->size) fail(2, "MetaGraphDef", "truncated field");
  if ((tag & 7) == 2) {
    value->data = in->data;
    value->size = (size_t)skip;
  }
  in->data += skip;
  in->size -= (size_t)skip;
  return 1;
}

static int find_field(Bytes message, uint32_t wanted, Bytes *value) {
  uint32_t number;
  while (next_field(&message, &number, value))
    if (number == wanted) return 1;
  return 0;
}

/* Looks a key up in a map<string, Message>, which is a repeated {1: key, 2: value}. */
static int find_in_map(Bytes message, uint32_t map_field, const char *key, Bytes *value) {
  uint32_t number;
  Bytes entry, name;
  while (next_field(&message, &number, &entry))
    if (number == map_field && find_field(entry, 1, &name) && name.size == strlen(key) &&
        memcmp(name.data, key, name.size) == 0)
      return find_field(entry, 2, value);
  return 0;
}

/* The TF_Output behind `key` in the inputs (1) or outputs (2) of a SignatureDef. */
static TF_Output signature_tensor(TF_Graph *graph, Bytes signature, uint32_t map_field, const char *key) {
  Bytes info, name;
  char text[512];
  TF_Output output;
  if (!find_in_map(signature, map_field, key, &info) || !find_field(info, 1, &name) || name.size >= sizeof text)
    fail(2, key, "not in the signature");
  memcpy(text, name.data, name.size);
  text[name.size] = '\0';
  char *colon = strrchr(text, ':');
  output.index = colon ? atoi(colon + 1) : 0;
  if (colon) *colon = '\0';
  output.oper = TF_GraphOperationByName(graph, text);
  if (output.oper == NULL) fail(2, text, "no such operation");
  return output;
}

/* ---- TFRecord: length (8), its CRC (4), data, CRC (4) ---- */

static int64_t read_records(const char *path, Bytes **records) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) fail(1, path, "cannot be opened");
  int64_t count = 0, capacity = 0;
  uint8_t header[12];
  *records = NULL;
  while (fread(header, 1, sizeof header, file) == sizeof header) {
    uint64_t length;
    uint8_t footer[4];
    memcpy(&length, header, sizeof length);
    uint8_t *data = malloc(length ? length : 1);
    if (data == NULL || fread(data, 1, length, file) != length || fread(footer, 1, 4, file) != 4)
      fail(1, path, "truncated record");
    if (count == capacity) {
      capacity = capacity ? 2 * capacity : 16;
      *records = realloc(*records, (size_t)capacity * sizeof **records);
      if (*records == NULL) fail(1, path, "out of memory");
    }
    (*records)[count].data = data;
    (*records)[count++].size = length;
  }
  fclose(file);
  return count;
}

static TF_Tensor *string_tensor(const Bytes *records, int64_t count) {
  TF_Tensor *tensor = TF_AllocateTensor(TF_STRING, &count, 1, (size_t)count * sizeof(TF_TString));
  TF_TString *strings = TF_TensorData(tensor);
  for (int64_t i = 0; i < count; i++) {
    TF_StringInit(&strings[i]);
    TF_StringCopy(&strings[i], (const char *)records[i].data, records[i].size);
  }
  return tensor;
}

static void print_text(const TF_Tensor *tensor, int64_t i) {
  if (TF_TensorType(tensor) == TF_INT64) {
    printf("%" PRId64, ((const int64_t *)TF_TensorData(tensor))[i]);
  } else {
    const TF_TString *text = (const TF_TString *)TF_TensorData(tensor) + i;
    fwrite(TF_StringGetDataPointer(text), 1, TF_StringGetSize(text), stdout);
  }
}

int main(int argc, char **argv) {
  if (argc != 3) fail(1, "usage", "predict SAVED_MODEL_DIR RECORDS_FILE");
  const char *tags[] = {"serve"};
  TF_Status *status = TF_NewStatus();
  TF_Graph *graph = TF_NewGraph();
  TF_Buffer *meta_graph = TF_NewBuffer();
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_Session *session = TF_LoadSessionFromSavedModel(options, NULL, argv[1], tags, 1, graph, meta_graph, status);
  check(status, 2, argv[1]);

  Bytes message = {meta_graph->data, meta_graph->length}, signature;
  if (!find_in_map(message, 5, SIGNATURE, &signature)) fail(2, SIGNATURE, "no such signature");
  TF_Output input = signature_tensor(graph, signature, 1, "examples");
  TF_Output outputs[NUM_OUTPUTS];
  for (int i = 0; i < NUM_OUTPUTS; i++) outputs[i] = signature_tensor(graph, signature, 2, kOutputs[i]);

  Bytes *records;
  int64_t count = read_records(argv[2], &records);
  TF_Tensor *request = string_tensor(records, count);
  TF_Tensor *answers[NUM_OUTPUTS];
  TF_SessionRun(session, NULL, &input, &request, 1, outputs, answers, NUM_OUTPUTS, NULL, 0, NULL, status);
  check(status, 3, "the model refused the request");

  for (int i = 0; i < NUM_OUTPUTS; i++)
    if (TF_NumDims(answers[i]) < 1 || TF_Dim(answers[i], 0) != count) fail(3, kOutputs[i], "not one row an example");
  printf("logits [%" PRId64 ", %" PRId64 "]\n", TF_Dim(answers[3], 0), TF_Dim(answers[3], 1));
  for (int64_t i = 0; i < count; i++) {
    print_text(answers[0], i);
    putchar('\t');
    print_text(answers[1], i);
    printf("\t%.4f\n", ((const float *)TF_TensorData(answers[2]))[i]);
  }

  for (int i = 0; i < NUM_OUTPUTS; i++) TF_DeleteTensor(answers[i]);
  TF_DeleteTensor(request);
  for (int64_t i = 0; i < count; i++) free((void *)records[i].data);
  free(records);
  TF_CloseSession(session, status);
  TF_DeleteSession(session, status);
  TF_DeleteSessionOptions(options);
  TF_DeleteBuffer(meta_graph);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
  return 0;
}
