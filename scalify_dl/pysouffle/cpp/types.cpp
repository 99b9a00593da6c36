#include "types.hpp"

#include <algorithm>

namespace dl {

using Form = TypeSystem::Info::Form;
using Declared = ast::TypeDeclaration;

std::string_view kind_name(TypeKind kind) {
    switch (kind) {
        case TypeKind::Number: return "number";
        case TypeKind::Unsigned: return "unsigned";
        case TypeKind::Float: return "float";
        case TypeKind::Symbol: return "symbol";
        case TypeKind::Record: return "record";
        case TypeKind::Adt: return "ADT";
    }
    return {};
}

TypeSystem::TypeSystem(const ast::Program& program, Report& report) {
    constexpr ast::Name kBase[] = {"number", "unsigned", "float", "symbol"};
    for (int round = 0; round < 2; ++round)
        for (int i = 0; i < 4; ++i) {
            Info info;
            info.name = kBase[i];
            info.form = round == 0 ? Form::Literal : Form::Subset;
            info.kind = static_cast<TypeKind>(i);
            info.base = round == 0 ? -1 : i;
            infos_.push_back(std::move(info));
            if (round == 1) names_[kBase[i]] = 4 + i;
        }
    declare(program, report);
    resolve_structure(report);
    resolve_fields(report);

    sets_.resize(2);
    set_ids_[""] = kNoType;
    for (TypeId t = 0; t < static_cast<TypeId>(infos_.size()); ++t) single_.push_back(set_of(std::vector<TypeId>{t}));
}

void TypeSystem::declare(const ast::Program& program, Report& report) {
    for (const Declared& d : program.types) {
        auto [at, is_new] = names_.emplace(d.name, static_cast<TypeId>(infos_.size()));
        if (!is_new) {
            report.error(d.begin, at->second < 8 ? "redefinition of the predefined type " + quote(d.name)
                                                 : "redefinition of type " + quote(d.name));
            continue;
        }
        Info info;
        info.name = d.name;
        info.declaration = &d;
        switch (d.kind) {
            case Declared::Kind::Record: info.form = Form::Record; info.kind = TypeKind::Record; break;
            case Declared::Kind::Adt: info.form = Form::Adt; info.kind = TypeKind::Adt; break;
            case Declared::Kind::Union: info.form = Form::Union; break;
            default: info.form = Form::Subset;
        }
        infos_.push_back(std::move(info));
    }
}

// Bases of subtypes, members of unions, targets of aliases. Depth first with a stack of its own: chains may be long.
void TypeSystem::resolve_structure(Report& report) {
    enum class State : std::uint8_t { New, Open, Done };
    std::vector<State> state(infos_.size(), State::New);
    std::vector<TypeId> alias(infos_.size(), -1);  // of an alias type: what it stands for
    const auto is_alias = [&](TypeId t) {
        return infos_[t].declaration && infos_[t].declaration->kind == Declared::Kind::Alias;
    };
    const auto skip_alias = [&](TypeId t) { return alias[t] >= 0 ? alias[t] : t; };

    const auto finish = [&](TypeId t) {
        Info& info = infos_[t];
        const Declared& d = *info.declaration;
        std::vector<TypeId> parts;
        for (ast::Name name : d.types) {
            auto found = names_.find(name);
            if (found == names_.end()) {
                report.error(d.begin, "undefined type " + quote(name) + " in the definition of type " + quote(d.name));
                info.valid = false;
            } else if (const TypeId part = skip_alias(found->second); !infos_[part].valid) {
                info.valid = false;  // reported where it is defined
            } else {
                parts.push_back(part);
            }
        }
        if (!info.valid || parts.empty()) return;
        if (d.kind == Declared::Kind::Alias) {
            alias[t] = parts[0];
            info.kind = infos_[parts[0]].kind;
        } else if (d.kind == Declared::Kind::Subset) {
            const Info& base = infos_[parts[0]];
            info.base = parts[0];
            info.kind = base.kind;
            if (base.form == Form::Union || base.form == Form::Record || base.form == Form::Adt) {
                const char* what = base.form == Form::Union ? "union" : base.form == Form::Record ? "record type" : "ADT";
                report.error(d.begin, "subtype " + quote(d.name) + " cannot be derived from the " + what + " " + quote(base.name));
                info.valid = false;
            }
        } else {
            for (TypeId part : parts) {
                const Info& member = infos_[part];
                if (member.form == Form::Record || member.form == Form::Adt) {
                    report.error(d.begin, "union type " + quote(d.name) + " contains the type " + quote(member.name) +
                                              ", which is not based on a primitive type");
                    info.valid = false;
                } else if (member.form == Form::Union) {
                    info.members.insert(info.members.end(), member.members.begin(), member.members.end());
                } else {
                    info.members.push_back(part);
                }
            }
            std::sort(info.members.begin(), info.members.end());
            info.members.erase(std::unique(info.members.begin(), info.members.end()), info.members.end());
            if (!info.valid || info.members.empty()) return;
            info.kind = infos_[info.members[0]].kind;
            for (TypeId member : info.members)
                if (infos_[member].kind != info.kind) {
                    report.error(d.begin, "union type " + quote(d.name) + " is defined over several primitive types",
                                 "it mixes " + std::string(kind_name(info.kind)) + " and " +
                                     std::string(kind_name(infos_[member].kind)));
                    info.valid = false;
                    break;
                }
            if (info.members.size() > 10'000) {
                report.error(d.begin, "union type " + quote(d.name) + " has more than 10,000 members");
                info.valid = false;
            }
        }
    };

    for (TypeId root = 8; root < static_cast<TypeId>(infos_.size()); ++root) {
        std::vector<TypeId> stack{root};
        while (!stack.empty()) {
            const TypeId t = stack.back();
            const Info& info = infos_[t];
            if (state[t] == State::Done) {
                stack.pop_back();
                continue;
            }
            const bool structural = info.form == Form::Subset || info.form == Form::Union;
            if (state[t] == State::Open || !structural) {
                if (structural) finish(t);
                state[t] = State::Done;
                stack.pop_back();
                continue;
            }
            state[t] = State::Open;
            for (ast::Name name : info.declaration->types) {
                auto found = names_.find(name);
                if (found == names_.end() || found->second < 8) continue;
                if (state[found->second] == State::New) {
                    stack.push_back(found->second);
                } else if (state[found->second] == State::Open && infos_[t].valid) {
                    report.error(info.declaration->begin, "infinite descent in the definition of type " + quote(info.name),
                                 "a type cannot be defined by itself");
                    infos_[t].valid = false;
                }
            }
        }
    }
    for (auto& [name, type] : names_)
        if (is_alias(type)) type = infos_[type].valid ? skip_alias(type) : type;
}

void TypeSystem::resolve_fields(Report& report) {
    const auto fields = [&](const std::vector<ast::Attribute>& declared, const std::string& where) {
        std::vector<TypeId> result;
        for (std::size_t i = 0; i < declared.size(); ++i) {
            result.push_back(find(declared[i].type));
            if (result.back() < 0)
                report.error(declared[i].begin, "undefined type " + quote(declared[i].type) + " of field " +
                                                    quote(declared[i].name) + " of " + where);
        }
        return result;
    };
    const auto check_names = [&](const std::vector<ast::Attribute>& declared, ast::Name type) {
        std::unordered_map<ast::Name, int> seen;
        for (const ast::Attribute& field : declared)
            if (seen[field.name]++)
                report.error(field.begin, "doubly defined field name " + quote(field.name) + " in the definition of type " + quote(type));
    };
    for (TypeId t = 8; t < static_cast<TypeId>(infos_.size()); ++t) {
        Info& info = infos_[t];
        const Declared& d = *info.declaration;
        if (info.form == Form::Record) {
            check_names(d.fields, d.name);
            info.fields = fields(d.fields, "type " + quote(d.name));
        } else if (info.form == Form::Adt) {
            for (const Declared::Branch& branch : d.branches) {
                check_names(branch.fields, d.name);
                info.branches.push_back({branch.name, fields(branch.fields, "branch " + quote(branch.name))});
            }
            std::stable_sort(info.branches.begin(), info.branches.end(),
                             [](const Info::Branch& a, const Info::Branch& b) { return a.name < b.name; });
            for (const Declared::Branch& branch : d.branches) {
                const auto at = std::find_if(info.branches.begin(), info.branches.end(),
                                             [&](const Info::Branch& b) { return b.name == branch.name; });
                const BranchRef ref{t, static_cast<std::int32_t>(at - info.branches.begin())};
                if (!branches_.emplace(branch.name, ref).second)
                    report.error(branch.begin, "branch " + quote(branch.name) + " is defined multiple times",
                                 "branch names are unique in a program");
            }
        }
    }
}

TypeId TypeSystem::find(ast::Name name) const {
    auto found = names_.find(name);
    return found == names_.end() || !infos_[found->second].valid ? -1 : found->second;
}

bool TypeSystem::is_declared(ast::Name name) const {
    auto found = names_.find(name);
    return found != names_.end() && (found->second >= 8 || name != infos_[found->second].name);
}

TypeSystem::BranchRef TypeSystem::find_branch(ast::Name name) const {
    auto found = branches_.find(name);
    return found == branches_.end() ? BranchRef{} : found->second;
}

bool TypeSystem::subtype(TypeId a, TypeId b) const {
    if (a == b) return true;
    const Info& lower = infos_[a];
    const Info& upper = infos_[b];
    if (lower.kind != upper.kind || lower.form == Form::Record || lower.form == Form::Adt) return false;
    if (upper.form == Form::Literal) return true;  // of the same kind
    if (lower.form == Form::Literal) return false;
    if (lower.form == Form::Union)
        return std::all_of(lower.members.begin(), lower.members.end(), [&](TypeId m) { return subtype(m, b); });
    for (TypeId t = a; t >= 0; t = infos_[t].base) {
        if (t == b) return true;
        if (upper.form == Form::Union && std::binary_search(upper.members.begin(), upper.members.end(), t)) return true;
    }
    return false;
}

void TypeSystem::common_subtypes(TypeId a, TypeId b, std::vector<TypeId>& out) const {
    if (subtype(a, b)) {
        out.push_back(a);
    } else if (subtype(b, a)) {
        out.push_back(b);
    } else if (infos_[a].form == Form::Union && infos_[b].form == Form::Union) {
        for (TypeId member : infos_[a].members)
            if (subtype(member, b)) out.push_back(member);
    }
}

TypeSet TypeSystem::set_of(std::vector<TypeId> members) {
    std::sort(members.begin(), members.end());
    members.erase(std::unique(members.begin(), members.end()), members.end());
    const std::string key(reinterpret_cast<const char*>(members.data()), members.size() * sizeof(TypeId));
    auto [at, is_new] = set_ids_.emplace(key, static_cast<TypeSet>(sets_.size()));
    if (is_new) sets_.push_back(std::move(members));
    return at->second;
}

TypeSet TypeSystem::meet(TypeSet a, TypeSet b) {
    if (a == b || b == kAnyType) return a;
    if (a == kAnyType) return b;
    if (a == kNoType || b == kNoType) return kNoType;
    const std::uint64_t key = static_cast<std::uint64_t>(a) << 32 | static_cast<std::uint32_t>(b);
    auto found = meets_.find(key);
    if (found != meets_.end()) return found->second;
    std::vector<TypeId> result;
    for (TypeId x : sets_[a])
        for (TypeId y : sets_[b]) common_subtypes(x, y, result);
    return meets_[key] = set_of(std::move(result));
}

std::vector<Type> TypeSystem::core_types() const {
    const auto fields = [&](const std::vector<ast::Attribute>& declared, const std::vector<TypeId>& types) {
        std::vector<Field> result;
        for (std::size_t i = 0; i < types.size(); ++i)
            result.push_back({std::string(declared[i].name), core_index(types[i])});
        return result;
    };
    std::vector<Type> result;
    for (TypeId t = 4; t < static_cast<TypeId>(infos_.size()); ++t) {
        const Info& info = infos_[t];
        Type type;
        type.kind = info.kind;
        type.name = info.name;
        if (info.form == Form::Record) {
            type.fields = fields(info.declaration->fields, info.fields);
        } else if (info.form == Form::Adt) {
            for (const Info::Branch& branch : info.branches)
                for (const Declared::Branch& d : info.declaration->branches)
                    if (d.name == branch.name) {
                        type.branches.push_back({std::string(d.name), fields(d.fields, branch.fields)});
                        break;
                    }
        } else if (t >= 8) {
            type.text = ".type " + std::string(info.name) +
                        (info.declaration->kind == Declared::Kind::Subset ? " <: " : " = ");
            for (std::size_t i = 0; i < info.declaration->types.size(); ++i)
                type.text += (i ? " | " : "") + std::string(info.declaration->types[i]);
        }
        result.push_back(std::move(type));
    }
    return result;
}

}  // namespace dl
