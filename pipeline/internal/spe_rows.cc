#include "pipeline/internal/spe_rows.h"

namespace ptarmigan::internal {
namespace {

std::string_view ThreadSourceName(SpeThreadSource source) {
  switch (source) {
    case SpeThreadSource::kContext:
      return "ctx";
    case SpeThreadSource::kSwitch:
      return "switch";
    case SpeThreadSource::kAuxtrace:
      return "auxtrace";
    case SpeThreadSource::kNone:
      break;
  }
  return "";
}

std::string_view OperationName(const SpeRecord& record) {
  if (record.IsLoad()) return "load";
  if (record.IsStore()) return "store";
  return record.IsBranch() ? "branch" : "other";
}

}  // namespace

SpeRows::SpeRows(const RecordingDescription& description, const SymbolizerOptions& symbolizer)
    : names_(description, symbolizer), stream_(description) {
  stream_.SetSink(this);
}

std::string_view SpeRows::Header() const {
  return "cpu\taux_off\tts\ttime_ns\ttid\ttid_src\tpc\tel\top\tdetail\tev_bytes\tevents_raw\tevents"
         "\tlat_tot\tlat_issue\tlat_xlat\tds_raw\tds\tlevel\tlevel_ev\tva\tva_"
         "tag\tpa\ttgt\tpbt\tctx"
         "\tbinary\tfunc\tpid";
}

void SpeRows::OnComm(const CommEvent& event) {
  names_.OnComm(event);
  stream_.OnComm(event);
}

void SpeRows::OnFork(const TaskEvent& event) {
  names_.OnFork(event);
  stream_.OnFork(event);
}

void SpeRows::OnSpeRecord(const SpeRecord& record, const SpeOrigin& origin) {
  const RecordIdentity& identity = origin.identity;
  // Recordings per thread have one stream per thread and no CPU.
  AppendCell("{}", identity.cpu == RecordIdentity::kNoCpu ? 0 : identity.cpu);
  AppendCell("{}", record.aux_offset);
  if (record.HasTimestamp()) Append("{}", record.timestamp());
  AppendEmpty();
  if (identity.has_time) Append("{}", identity.time_ns);
  AppendEmpty();
  AppendThread(origin);
  AppendCell("0x{:x}", record.Pc().value);
  const unsigned level = record.ExceptionLevel(SpeAddress::kPc);
  AppendCell("{}", level);
  AppendOperation(record);
  for (const SpeCounter counter :
       {SpeCounter::kTotal, SpeCounter::kIssue, SpeCounter::kTranslation}) {
    if (record.Has(counter)) Append("{}", record.Counter(counter));
    AppendEmpty();
  }
  AppendData(record, origin);
  AppendAddress(record, SpeAddress::kTarget);
  AppendAddress(record, SpeAddress::kPreviousTarget);
  if (record.HasContext()) Append("{}", record.Context());
  AppendEmpty();
  const CodeNames::Names names =
      names_.Find(identity, record.Pc(), level == 0 ? CpuMode::kUser : CpuMode::kKernel);
  AppendText(names.binary);
  AppendText(names.function);
  if (identity.pid >= 0) Append("{}", identity.pid);
  AppendEmpty();
  AppendEnd();
}

void SpeRows::AppendThread(const SpeOrigin& origin) {
  if (origin.identity.tid >= 0) Append("{}", origin.identity.tid);
  AppendEmpty();
  AppendText(ThreadSourceName(origin.thread_source));
}

void SpeRows::AppendOperation(const SpeRecord& record) {
  if (record.HasOperation()) {
    AppendText(OperationName(record));
    AppendText(SpeOperationDetail(record.OperationClass(), record.Operation()));
  } else {
    AppendEmpty();
    AppendEmpty();
  }
  if (record.EventBytes() == 0) {
    text_ += "\t\t\t";
    return;
  }
  AppendCell("{}", record.EventBytes());
  AppendCell("0x{:x}", record.Events());
  AppendSpeEventNames(record.Events(), ',', &text_);
  AppendEmpty();
}

void SpeRows::AppendData(const SpeRecord& record, const SpeOrigin& origin) {
  if (record.IsLoad() && record.HasDataSource()) Append("0x{:x}", record.DataSource());
  AppendEmpty();
  AppendText(SpeDataSourceName(record, *origin.data_sources));
  AppendText(SpeLevel(record, *origin.data_sources));
  AppendText(SpeLevelByEvents(record));
  AppendAddress(record, SpeAddress::kVirtual);
  if (record.Has(SpeAddress::kVirtual)) Append("0x{:x}", record.DataAddressTag());
  AppendEmpty();
  AppendAddress(record, SpeAddress::kPhysical);
}

void SpeRows::AppendAddress(const SpeRecord& record, SpeAddress address) {
  if (record.Has(address)) Append("0x{:x}", record.AddressOf(address));
  AppendEmpty();
}

}  // namespace ptarmigan::internal
