/* Asks an exported model through the TensorFlow C API: no Python, no C++.
 *
 *   predict SAVED_MODEL_DIR RECORDS_FILE [THREADS SECONDS]
 *
 * RECORDS_FILE is an uncompressed TFRecord file of serialized graph tf.Examples.
 * Prints the shape of `logits`, then one line "id <tab> label <tab> score" an
 * example. With THREADS, so many threads then ask the same session at the same
 * time, 1 to 64 examples a request, and each answer must be the one that the example
 * got alone; prints the number of requests and the largest difference. Exit codes: 1
 * the program was called wrongly or a file cannot be read, 2 the model cannot be
 * loaded or has no such signature, 3 the model refused the request, 4 an answer to
 * several threads differs. Messages go to stderr.
 */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tensorflow/c/c_api.h"
#include "tensorflow/c/tf_tstring.h"

#define SIGNATURE "serving_default"
#define NUM_OUTPUTS 4
#define MOST_EXAMPLES 64
#define TOLERANCE 1e-4
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

/* ---- several threads ---- */

typedef struct {
  TF_Tensor *outputs[NUM_OUTPUTS];
} Answer;

typedef struct {
  TF_Session *session;
  TF_Output input, outputs[NUM_OUTPUTS];
  const Bytes *records;
  int64_t count;
  const Answer *alone;
  double end;
  unsigned int seed;
  int64_t requests;
  double largest;
} Asker;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static Answer ask(const Asker *asker, const Bytes *records, int64_t count) {
  Answer answer;
  TF_Status *status = TF_NewStatus();
  TF_Tensor *request = string_tensor(records, count);
  TF_SessionRun(asker->session, NULL, &asker->input, &request, 1, asker->outputs, answer.outputs, NUM_OUTPUTS, NULL, 0,
                NULL, status);
  check(status, 3, "the model refused the request");
  TF_DeleteTensor(request);
  TF_DeleteStatus(status);
  return answer;
}

static void delete_answer(Answer *answer) {
  for (int i = 0; i < NUM_OUTPUTS; i++) TF_DeleteTensor(answer->outputs[i]);
}

/* How far row `row` of an output is from the only row of the other; 1e9 if it is something else. */
static double row_difference(const TF_Tensor *rows, int64_t row, const TF_Tensor *alone) {
  if (TF_TensorType(rows) == TF_STRING) {
    const TF_TString *left = (const TF_TString *)TF_TensorData(rows) + row, *right = TF_TensorData(alone);
    size_t size = TF_StringGetSize(left);
    int same = size == TF_StringGetSize(right) &&
               memcmp(TF_StringGetDataPointer(left), TF_StringGetDataPointer(right), size) == 0;
    return same ? 0.0 : 1e9;
  }
  size_t size = TF_TensorByteSize(alone);
  const char *left = (const char *)TF_TensorData(rows) + (size_t)row * size;
  if (TF_TensorType(rows) != TF_FLOAT) return memcmp(left, TF_TensorData(alone), size) ? 1e9 : 0.0;
  double largest = 0.0;
  for (size_t i = 0; i < size / sizeof(float); i++) {
    double expected = ((const float *)TF_TensorData(alone))[i], difference = ((const float *)left)[i] - expected;
    if (difference < 0) difference = -difference;
    if (expected > 1 || expected < -1) difference /= expected > 0 ? expected : -expected;
    if (!(difference <= largest)) largest = difference == difference ? difference : 1e9;
  }
  return largest;
}

static void *ask_until_the_end(void *argument) {
  Asker *asker = argument;
  Bytes chosen[MOST_EXAMPLES];
  int64_t places[MOST_EXAMPLES];
  do {
    int64_t count = 1 + rand_r(&asker->seed) % MOST_EXAMPLES;
    for (int64_t i = 0; i < count; i++) {
      places[i] = rand_r(&asker->seed) % asker->count;
      chosen[i] = asker->records[places[i]];
    }
    Answer answer = ask(asker, chosen, count);
    for (int output = 0; output < NUM_OUTPUTS; output++)
      for (int64_t i = 0; i < count; i++) {
        double difference = row_difference(answer.outputs[output], i, asker->alone[places[i]].outputs[output]);
        if (difference > asker->largest) asker->largest = difference;
      }
    delete_answer(&answer);
    asker->requests++;
  } while (now() < asker->end);
  return NULL;
}

static void ask_from_threads(Asker base, int num_threads, double seconds) {
  Answer *alone = calloc((size_t)base.count, sizeof *alone);
  pthread_t *threads = calloc((size_t)num_threads, sizeof *threads);
  Asker *askers = calloc((size_t)num_threads, sizeof *askers);
  if (alone == NULL || threads == NULL || askers == NULL) fail(1, "threads", "out of memory");
  for (int64_t i = 0; i < base.count; i++) alone[i] = ask(&base, &base.records[i], 1);
  base.alone = alone;
  base.end = now() + seconds;
  for (int i = 0; i < num_threads; i++) {
    askers[i] = base;
    askers[i].seed = (unsigned int)i + 1;
    if (pthread_create(&threads[i], NULL, ask_until_the_end, &askers[i]) != 0) fail(1, "thread", "cannot be started");
  }
  int64_t requests = 0;
  double largest = 0.0;
  for (int i = 0; i < num_threads; i++) {
    pthread_join(threads[i], NULL);
    requests += askers[i].requests;
    if (askers[i].largest > largest) largest = askers[i].largest;
  }
  printf("%" PRId64 " requests of %d threads, largest difference %.2g\n", requests, num_threads, largest);
  for (int64_t i = 0; i < base.count; i++) delete_answer(&alone[i]);
  free(alone);
  free(threads);
  free(askers);
  if (!(largest <= TOLERANCE)) fail(4, "several threads", "an answer differs from the one given alone");
}

int main(int argc, char **argv) {
  if (argc != 3 && argc != 5) fail(1, "usage", "predict SAVED_MODEL_DIR RECORDS_FILE [THREADS SECONDS]");
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

  if (argc == 5 && count > 0) {
    Asker asker = {.session = session, .input = input, .records = records, .count = count};
    memcpy(asker.outputs, outputs, sizeof outputs);
    ask_from_threads(asker, atoi(argv[3]), atof(argv[4]));
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
