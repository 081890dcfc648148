from meters import over_all_ranks


def describe(right, total):
    share = over_all_ranks(right.float()) / total
    return f"accuracy {share.item():.3f}"


def report_step(epoch, right, total, show):
    text = describe(right, total)
    if show:
        print(f"epoch {epoch}: {text}")
