// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <algorithm>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "commands/commands.h"
#include "commands/doctor_rows.h"
#include "commands/program_files.h"

namespace pillion::commands {
namespace {

struct Patient {
  inject::TargetLook look;
  ShimAnswer shim;
  DoctorRows rows;
};

Patient examine_patient(std::uint32_t pid, const Equipment& equipment) {
  Patient patient;
  patient.look = inject::look_at_target(pid);
  if (!patient.look.process) patient.shim = ask_shim(patient.look, equipment.socket_directory);
  patient.rows = process_rows(patient.look, patient.shim, equipment);
  return patient;
}

struct Ward {
  std::vector<Patient> patients;
  std::size_t closed = 0;  // processes that may not be looked into
};

bool is_patient(const inject::TargetLook& look, const ShimAnswer& shim) {
  return look.examination.uses_cuda || look.examination.resident || shim.state != ShimAnswer::State::none;
}

// Every process that uses CUDA or has a shim, as far as can be seen.
Ward examine_all(const Equipment& equipment) {
  Ward ward;
  for (const auto pid : inject::numbered_entries(AT_FDCWD, "/proc")) {
    const inject::TargetLook look = inject::look_at_target(pid);
    if (look.process) continue;
    const ShimAnswer shim = ask_shim(look, equipment.socket_directory);
    if (is_patient(look, shim)) {
      ward.patients.push_back({look, shim, process_rows(look, shim, equipment)});
    } else if (look.access) {
      ++ward.closed;
    }
  }
  std::sort(ward.patients.begin(), ward.patients.end(), [](const Patient& left, const Patient& right) {
    return left.look.examination.pid < right.look.examination.pid;
  });
  return ward;
}

DoctorRow closed_row(const Ward& ward) {
  if (ward.closed == 0) return {"processes", "all may be looked into", RowState::ok, {}};
  return {"processes", std::to_string(ward.closed) + " may not be looked into", RowState::degraded,
          "those that use CUDA without the shim are not found; CAP_SYS_PTRACE finds them"};
}

std::string title(const inject::Examination& found) {
  std::string text = "process " + std::to_string(found.pid);
  if (!found.comm.empty()) text += " (" + found.comm + "), user " + std::to_string(found.uid);
  if (!found.exe.empty()) text += ", " + found.exe;
  return text;
}

nlohmann::json rows_json(const DoctorRows& rows) {
  auto list = nlohmann::json::array();
  for (const auto& row : rows) {
    list.push_back({{"subject", row.subject},
                    {"finding", row.finding},
                    {"state", to_string(row.state)},
                    {"remedy", row.remedy}});
  }
  return list;
}

void print_json(const DoctorRows& own, const std::vector<Patient>& patients) {
  auto list = nlohmann::json::array();
  for (const auto& patient : patients) {
    const auto& found = patient.look.examination;
    list.push_back({{"pid", found.pid},
                    {"name", found.comm},
                    {"user", found.uid},
                    {"program", found.exe},
                    {"verdict", to_string(patient.rows.back().state)},
                    {"rows", rows_json(patient.rows)}});
  }
  const nlohmann::json answer = {{"pillion", rows_json(own)}, {"processes", list}};
  std::printf("%s\n", answer.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

void print_rows(const std::string& heading, const DoctorRows& rows) {
  std::printf("%s\n", heading.c_str());
  for (const auto& row : rows) std::printf("  %s\n", row.line().c_str());
}

void print_text(const DoctorRows& own, const std::vector<Patient>& patients) {
  print_rows("pillion, user " + std::to_string(::geteuid()), own);
  for (const auto& patient : patients) print_rows(title(patient.look.examination), patient.rows);
  if (patients.empty()) std::printf("no process that uses CUDA or has the shim was seen\n");
}

int exit_code(const std::vector<Patient>& patients) {
  if (patients.empty()) return kNoShim;
  int code = kDone;
  for (const auto& patient : patients) {
    if (patient.rows.back().state != RowState::missing) continue;
    const auto& process = patient.look.process;
    code = process && process->kind == inject::RefusalReason::no_process ? kTargetGone : kRefused;
  }
  return code;
}

}  // namespace

int doctor(const Options& options, const std::filesystem::path& from) {
  Equipment equipment;
  equipment.socket_directory = options.socket_dir;
  if (const auto shim = find_shim(from)) equipment.shim = shim->string();
  if (auto cupti = find_cupti({from})) equipment.cupti = std::move(*cupti);
  DoctorRows own = equipment_rows(equipment);
  std::vector<Patient> patients;
  if (options.pid) {
    patients.push_back(examine_patient(*options.pid, equipment));
  } else {
    Ward ward = examine_all(equipment);
    own.push_back(closed_row(ward));
    patients = std::move(ward.patients);
  }
  if (options.format == http::ProfileFormat::json) {
    print_json(own, patients);
  } else {
    print_text(own, patients);
  }
  return exit_code(patients);
}

}  // namespace pillion::commands
