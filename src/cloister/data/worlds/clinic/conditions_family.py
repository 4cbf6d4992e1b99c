"""Lexicon of the clinic world: common infections, allergy, women's and men's health."""

from __future__ import annotations

from typing import Final

from cloister.data.worlds.clinic.condition import Condition, condition

__all__ = ["FAMILY_MEDICINE"]

FAMILY_MEDICINE: Final[tuple[Condition, ...]] = (
    condition(
        "common cold", 10, "infections", chronic=False, ages=(0, 95),
        names="upper respiratory tract infection; URTI; viral rhinitis; coryza",
        lay="a cold; head cold; the sniffles",
        symptoms="runny nose; sore throat; sneezing; blocked nose; tickly cough; hoarseness",
        signs="red throat without exudate; clear chest; clear nasal discharge",
        drugs="paracetamol 1 g up to four times daily|adult; saline nasal spray; "
        "paracetamol suspension by weight|child; ibuprofen 400 mg with food|nsaid,adult",
        tests="temperature 36.8-38.3 degrees",
        procedures="throat swab",
        advice="rest and drink warm fluids; keep the air moist; expect a week or two; no "
        "antibiotics needed",
        related="sinusitis; influenza; tonsillitis; middle ear infection",
    ),
    condition(
        "tonsillitis", 17, "infections", chronic=False, ages=(2, 40),
        names="acute tonsillitis; streptococcal pharyngitis; tonsillopharyngitis",
        lay="strep throat; swollen tonsils; throat infection",
        symptoms="sore throat; painful swallowing; fever; swollen glands in the neck; bad breath",
        signs="enlarged tonsils with white spots; tender neck nodes; no trismus",
        drugs="phenoxymethylpenicillin 500 mg four times daily|penicillin,adult; "
        "clarithromycin 500 mg twice daily|adult; penicillin V suspension|penicillin,child; "
        "azithromycin suspension once daily for three days|child",
        tests="Centor score 2-4 points; temperature 37.6-39.4 degrees",
        procedures="rapid strep test; throat swab; tonsillectomy referral",
        advice="gargle with salt water; eat soft food; finish the course",
        related="common cold; influenza; glandular fever",
    ),
    condition(
        "glandular fever", 86, "infections", chronic=False, ages=(13, 32),
        names="infectious mononucleosis; Epstein-Barr virus infection; EBV tonsillitis",
        lay="kissing disease; mono",
        symptoms="lasting tiredness; swollen neck glands; sore throat; night sweats; puffy eyes",
        signs="palatal petechiae; palpable spleen tip; enlarged posterior neck nodes",
        drugs="paracetamol 1 g up to four times daily; benzydamine throat spray",
        tests="ALT 54-240 U/l; atypical lymphocytes 12-38 %",
        procedures="monospot test; liver function tests; abdominal ultrasound",
        advice="no contact sport for six weeks; do not share cups; rest when tired",
        related="tonsillitis; common cold",
    ),
    condition(
        "middle ear infection", 18, "infections", chronic=False, ages=(0, 12),
        names="acute otitis media; AOM; suppurative otitis media",
        lay="earache; ear infection",
        symptoms="pulling at the ear; earache; fever; crying at night; discharge from the ear",
        signs="bulging red eardrum; dull tympanic membrane; no mastoid tenderness",
        drugs="amoxicillin suspension three times daily|penicillin; paracetamol suspension by "
        "weight|"
        "child; azithromycin suspension once daily for three days",
        tests="temperature 37.4-39.5 degrees",
        procedures="tympanometry; grommet referral; hearing test",
        advice="give pain relief regularly; keep the ear dry; come back if no better in three days",
        related="common cold; tonsillitis; hearing loss",
    ),
    condition(
        "sinusitis", 26, "infections", chronic=False, ages=(12, 80),
        names="acute rhinosinusitis; maxillary sinusitis; sinus infection",
        lay="blocked sinuses; sinus trouble",
        symptoms="pressure over the cheeks; thick nasal discharge; headache on bending; reduced "
        "smell; aching upper teeth",
        signs="tender maxillary sinuses; purulent discharge in the nose",
        drugs="mometasone nasal spray once daily; doxycycline 100 mg once daily|tetracycline; "
        "saline "
        "rinses twice daily; amoxicillin 500 mg three times daily|penicillin",
        procedures="sinus CT; nasal endoscopy; ENT referral",
        advice="inhale steam; sleep with the head raised; return if the eye swells",
        related="common cold; allergic rhinitis; asthma",
    ),
    condition(
        "chickenpox", 43, "infections", chronic=False, ages=(1, 12),
        names="varicella; primary varicella infection; varicella exanthem",
        lay="the pox; itchy spots",
        symptoms="itchy blisters; fever; spots in the hair; loss of appetite; tiredness",
        signs="vesicles in different stages; no infected lesions; spots in the mouth",
        drugs="calamine lotion; cetirizine drops|child; paracetamol suspension by weight|child",
        tests="temperature 37.3-39.1 degrees",
        procedures="vesicle swab",
        advice="stay home until all spots crust; keep nails short; no ibuprofen",
        related="shingles; croup",
    ),
    condition(
        "croup", 87, "infections", chronic=False, ages=(0, 4),
        names="viral croup; laryngotracheitis; pseudocroup",
        lay="barking cough; noisy breathing at night",
        symptoms="barking cough; hoarse cry; noisy breathing; restlessness at night",
        signs="inspiratory stridor when crying; no drooling; good colour",
        drugs="dexamethasone syrup single dose; nebulised budesonide",
        tests="Westley score 1-5 points; oxygen saturation 98-93 %",
        procedures="observation in the practice; hospital assessment",
        advice="sit the child upright; go out into cool night air; call an ambulance if the lips "
        "turn blue",
        related="common cold; chickenpox; middle ear infection",
    ),
    condition(
        "allergic rhinitis", 9, "respiratory", ages=(5, 50), heritable=True,
        names="seasonal allergic rhinitis; pollinosis; dust mite allergy",
        lay="hay fever; pollen allergy",
        symptoms="sneezing; itchy eyes; runny nose in spring; itchy palate; blocked nose at night",
        signs="pale swollen turbinates; allergic shiners; clear lungs",
        drugs="cetirizine 10 mg once daily; fluticasone nasal spray once daily; loratadine 10 mg "
        "once "
        "daily; azelastine eye drops",
        tests="total IgE 140-980 kU/l",
        procedures="skin prick testing; allergen immunotherapy; nasal endoscopy",
        advice="keep windows shut in the morning; shower after being outdoors; start tablets "
        "before "
        "the season",
        related="asthma; eczema; sinusitis; conjunctivitis",
    ),
    condition(
        "pregnancy", 33, "gynaecology", chronic=False, ages=(19, 42), sex="F", graded=False,
        names="gravidity; intrauterine pregnancy; early pregnancy",
        lay="expecting a baby; being pregnant",
        symptoms="missed period; morning sickness; breast tenderness; tiredness; frequent need to "
        "pass water",
        signs="soft abdomen without tenderness; slightly enlarged uterus; no ankle oedema",
        drugs="folic acid 400 micrograms once daily; pregnancy multivitamin once daily",
        tests="haemoglobin 129-104 g/l; fasting glucose 4.1-5.4 mmol/l",
        procedures="dating scan; anomaly scan; glucose tolerance test; midwife booking",
        advice="avoid raw meat and soft cheese; no alcohol; eat small meals often; book the "
        "midwife",
        related="iron deficiency anaemia; varicose veins; haemorrhoids",
        avoid="teratogen; nsaid; tetracycline; aspirin; opioid",
        course="feeling well, no bleeding; nausea easing; first scan normal; blood pressure steady",
    ),
    condition(
        "menopause", 42, "gynaecology", ages=(46, 58), until=72, sex="F",
        names="climacteric; vasomotor symptoms; perimenopausal syndrome",
        lay="the change; change of life",
        symptoms="hot flushes; night sweats; vaginal dryness; irregular periods; mood swings; "
        "joint "
        "aches",
        signs="normal breast examination; atrophic vaginal mucosa",
        drugs="estradiol patch twice a week; vaginal estriol cream; black cohosh extract; "
        "micronised "
        "progesterone 100 mg at night",
        tests="FSH 32-94 U/l",
        procedures="pelvic ultrasound; mammogram; bone density scan",
        advice="dress in layers; cut down on spicy food and wine; report any bleeding",
        related="osteoporosis; insomnia; depression; urinary incontinence",
    ),
    condition(
        "endometriosis", 65, "gynaecology", ages=(17, 42), until=52, sex="F", heritable=True,
        names="pelvic endometriosis; ovarian endometrioma; deep endometriosis",
        lay="painful periods; womb lining growing outside",
        symptoms="severe period pain; pain during intercourse; pelvic ache; pain opening the "
        "bowels; "
        "difficulty conceiving",
        signs="tender uterosacral ligaments; fixed retroverted uterus; adnexal fullness",
        drugs="dienogest 2 mg once daily; hormonal coil; combined pill taken continuously; "
        "naproxen "
        "250 mg twice daily|nsaid",
        tests="CA-125 28-110 U/ml",
        procedures="diagnostic laparoscopy; transvaginal ultrasound; fertility clinic referral",
        advice="keep a pain calendar; try heat and gentle yoga",
        related="irritable bowel syndrome; menorrhagia; depression",
    ),
    condition(
        "menorrhagia", 53, "gynaecology", ages=(14, 48), until=54, sex="F",
        names="heavy menstrual bleeding; hypermenorrhoea; uterine fibroids",
        lay="heavy periods; flooding",
        symptoms="passing clots; changing pads every hour; periods lasting ten days; tiredness "
        "during "
        "periods",
        signs="bulky uterus; pale nail beds; normal cervix",
        drugs="tranexamic acid 1 g three times daily; hormonal coil; mefenamic acid 500 mg three "
        "times daily|nsaid",
        tests="haemoglobin 121-84 g/l; fibroid size 12-64 mm",
        procedures="pelvic ultrasound; hysteroscopy; endometrial ablation consultation",
        advice="keep a bleeding calendar; eat iron-rich food",
        related="iron deficiency anaemia; endometriosis; hypothyroidism",
    ),
    condition(
        "polycystic ovary syndrome", 76, "gynaecology", ages=(15, 38), until=50, sex="F",
        heritable=True,
        names="PCOS; Stein-Leventhal syndrome; polycystic ovaries",
        lay="ovary cysts; hormone imbalance",
        symptoms="missed periods; unwanted facial hair; weight gain; oily skin; thinning hair",
        signs="hirsutism of the chin; acanthosis at the neck; normal blood pressure",
        drugs="combined pill once daily; metformin 500 mg twice daily; eflornithine cream twice "
        "daily",
        tests="testosterone 1.6-3.4 nmol/l; antral follicles 13-31",
        procedures="pelvic ultrasound; glucose tolerance test; fertility clinic referral",
        advice="aim for a loss of five per cent of body weight; keep a cycle calendar",
        related="obesity; type 2 diabetes; acne",
    ),
    condition(
        "breast cancer", 54, "oncology", ages=(36, 86), sex="F", heritable=True, graded=False,
        names="breast carcinoma; invasive ductal carcinoma; mammary carcinoma",
        lay="breast tumour; a lump in the breast that was cancer",
        symptoms="breast lump; nipple retraction; hot flushes on treatment; arm swelling; sore "
        "scar",
        signs="well-healed breast scar; mild lymphoedema of the arm; no axillary nodes",
        drugs="tamoxifen 20 mg once daily|teratogen; letrozole 2.5 mg once daily|teratogen; "
        "trastuzumab infusion every three weeks|teratogen",
        tests="tumour size 9-41 mm; tumour marker 14-62 U/ml",
        procedures="mammogram; wide local excision; sentinel node biopsy; breast radiotherapy",
        advice="wear a compression sleeve on flights; go to the yearly mammogram; keep up arm "
        "exercises",
        related="melanoma; osteoporosis; deep vein thrombosis", excludes="pregnancy",
    ),
    condition(
        "prostate cancer", 59, "oncology", ages=(54, 90), sex="M", heritable=True, graded=False,
        names="prostate carcinoma; prostatic adenocarcinoma; carcinoma of the prostate",
        lay="prostate tumour; cancer of the prostate gland",
        symptoms="weak stream; getting up at night; bone pain; hot flushes on injections; blood in "
        "the urine",
        signs="hard nodule in the left lobe; no spinal tenderness",
        drugs="leuprorelin injection every three months; bicalutamide 50 mg once daily; "
        "abiraterone "
        "1 g once daily",
        tests="PSA 4.8-46.0 ug/l; Gleason score 6-9",
        procedures="prostate MRI; prostate biopsy; radical prostatectomy; bone scan",
        advice="have the PSA checked every quarter; do pelvic floor exercises; keep bones strong",
        related="enlarged prostate; urinary incontinence; erectile dysfunction",
        excludes="enlarged prostate",
    ),
    condition(
        "enlarged prostate", 35, "urology", ages=(50, 88), sex="M",
        names="benign prostatic hyperplasia; BPH; lower urinary tract symptoms; prostatism",
        lay="prostate trouble; old man's bladder",
        symptoms="weak stream; getting up at night; dribbling; hesitancy; sudden urge",
        signs="smooth enlarged prostate; bladder not palpable",
        drugs="tamsulosin 400 micrograms once daily; finasteride 5 mg once daily; alfuzosin 10 mg "
        "once "
        "daily",
        tests="PSA 1.2-5.6 ug/l; residual urine 30-240 ml; symptom score 8-27 points",
        procedures="bladder scan; transurethral resection; urine flow test",
        advice="drink less after six in the evening; avoid cold remedies with decongestants",
        related="prostate cancer; urinary tract infection; erectile dysfunction",
        excludes="prostate cancer",
    ),
    condition(
        "erectile dysfunction", 89, "urology", ages=(40, 80), sex="M",
        names="impotence; ED; erection difficulty",
        lay="trouble in bed; potency problems",
        symptoms="weak erections; loss of morning erections; strain in the relationship; "
        "performance "
        "worry",
        signs="normal genital examination; good foot pulses",
        drugs="sildenafil 50 mg as needed; tadalafil 5 mg once daily",
        tests="testosterone 14.2-6.8 nmol/l",
        procedures="hormone profile; psychosexual counselling",
        advice="talk about it with the partner; never combine with nitrates; cut down on alcohol",
        related="type 2 diabetes; enlarged prostate; depression",
        excludes="coronary heart disease", avoid="nitrate",
    ),
    condition(
        "urinary tract infection", 11, "urology", chronic=False, ages=(4, 95),
        names="UTI; acute cystitis; bacterial cystitis; bladder infection",
        lay="water infection; waterworks infection",
        symptoms="burning on passing water; needing the toilet all the time; cloudy urine; lower "
        "belly ache; smelly urine",
        signs="suprapubic tenderness; no renal angle tenderness",
        drugs="nitrofurantoin 100 mg twice daily|adult; trimethoprim 200 mg twice daily|adult,"
        "teratogen; pivmecillinam 400 mg three times daily|penicillin,adult; "
        "cefalexin suspension three times daily|child",
        tests="urine white cells 60-500 per ul; temperature 36.9-38.7 degrees",
        procedures="urine culture; bladder scan; renal ultrasound",
        advice="drink more than usual; empty the bladder fully; come back with back pain or fever",
        related="kidney stones; urinary incontinence; enlarged prostate",
    ),
    condition(
        "urinary incontinence", 90, "urology", ages=(35, 90), sex="F",
        names="stress incontinence; overactive bladder; urge incontinence",
        lay="leaking urine; weak bladder",
        symptoms="leaking on coughing; sudden urge; wearing pads; rushing to the toilet; wet bed "
        "at "
        "night",
        signs="weak pelvic floor contraction; mild cystocele",
        drugs="solifenacin 5 mg once daily; mirabegron 50 mg once daily; vaginal estriol cream",
        tests="bladder diary 9-17 voids a day",
        procedures="urodynamic study; pelvic floor physiotherapy; sling operation",
        advice="train the bladder by the clock; squeeze before sneezing; cut down on tea",
        related="urinary tract infection; menopause; multiple sclerosis",
    ),
)  # fmt: skip
